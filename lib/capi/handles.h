// SPDX-License-Identifier: Apache-2.0
//
// What every opaque handle begins with: a type tag and a gate, and the guards that exported
// functions hold while they use one. The gate never waits: who does not fit what is running gets
// kBusy.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "lib/base/status.h"

namespace colibri {

// Numbers that are unlikely at the start of anything else.
enum class HandleType : uint32_t {
  kClosed = 0xC011B000,
  kModel = 0xC011B001,
  kTokenizer = 0xC011B002,
  kStreamDecoder = 0xC011B003,
  kKvSlot = 0xC011B004,
  kBatch = 0xC011B005,
  kScheduler = 0xC011B006,
};

enum class UseMode : uint8_t {
  kVisit,  // beside everything but kClose: functions that say "Threads Any"
  kRead,   // beside kVisit and kRead: functions that take a const handle
  kWrite,  // beside kVisit alone: functions that take a handle
  kClose,  // alone: functions that end the object
};

class Gate {
 public:
  // False if a use that is running excludes this one.
  bool enter(UseMode mode) noexcept;
  void leave(UseMode mode) noexcept;

 private:
  std::atomic<uint64_t> uses_{0};
};

// First base of every handle struct.
class Handle {
 public:
  explicit Handle(HandleType type) noexcept : type_(static_cast<uint32_t>(type)) {}
  ~Handle() { type_.store(static_cast<uint32_t>(HandleType::kClosed), std::memory_order_relaxed); }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;

  // True if `handle` points to a handle of this type. A closed one is recognised only by chance.
  static bool has_type(const void *handle, HandleType type) noexcept;

  Gate &gate() const noexcept { return gate_; }

 private:
  std::atomic<uint32_t> type_;
  mutable Gate gate_;
};

// Counts a child of a parent as long as it lives.
class ChildCount {
 public:
  explicit ChildCount(std::atomic<uint32_t> &count) noexcept : count_(count) { ++count_; }
  ~ChildCount() { --count_; }
  ChildCount(const ChildCount &) = delete;
  ChildCount &operator=(const ChildCount &) = delete;

 private:
  std::atomic<uint32_t> &count_;
};

[[noreturn]] void throw_wrong_handle(const void *handle, const char *name);
[[noreturn]] void throw_busy(const char *name);

// Holds a handle of type T (which has a kType) in the given mode. Throws Error: kHandle, kBusy.
template <typename T, UseMode mode>
class Use {
 public:
  Use(T *handle, const char *name) : handle_(handle) {
    if (!Handle::has_type(handle, T::kType)) throw_wrong_handle(handle, name);
    if (!handle->gate().enter(mode)) throw_busy(name);
  }
  ~Use() {
    if (handle_ != nullptr) handle_->gate().leave(mode);
  }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;

  T *operator->() const noexcept { return handle_; }
  T &operator*() const noexcept { return *handle_; }

  // Takes the object to destroy it: its gate stays closed.
  std::unique_ptr<T> take() noexcept requires(mode == UseMode::kClose) {
    T *handle = handle_;
    handle_ = nullptr;
    return std::unique_ptr<T>(handle);
  }

 private:
  T *handle_;
};

template <typename T>
using Visit = Use<T, UseMode::kVisit>;
template <typename T>
using Read = Use<T, UseMode::kRead>;
template <typename T>
using Write = Use<T, UseMode::kWrite>;
template <typename T>
using Close = Use<T, UseMode::kClose>;

}  // namespace colibri

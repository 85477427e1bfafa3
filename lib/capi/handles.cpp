// SPDX-License-Identifier: Apache-2.0
//
// The gate is one word: visits in the low half, reads in the upper half, and a bit each for a write
// and for the end of the object. One compare-and-swap enters, one subtraction leaves.

#include "lib/capi/handles.h"

namespace colibri {
namespace {

constexpr uint64_t kOneVisit = 1;
constexpr uint64_t kOneRead = uint64_t{1} << 31;
constexpr uint64_t kWriteBit = uint64_t{1} << 62;
constexpr uint64_t kCloseBit = uint64_t{1} << 63;
constexpr uint64_t kAllReads = kWriteBit - kOneRead;
constexpr uint64_t kAll = ~uint64_t{0};

struct Rule {
  uint64_t own;       // what this use adds
  uint64_t excluded;  // what may not be there
};

constexpr Rule rule_of(UseMode mode) noexcept {
  switch (mode) {
    case UseMode::kVisit:
      return {kOneVisit, kCloseBit};
    case UseMode::kRead:
      return {kOneRead, kCloseBit | kWriteBit};
    case UseMode::kWrite:
      return {kWriteBit, kCloseBit | kWriteBit | kAllReads};
    case UseMode::kClose:
      break;
  }
  return {kCloseBit, kAll};
}

}  // namespace

bool Gate::enter(UseMode mode) noexcept {
  const Rule rule = rule_of(mode);
  uint64_t uses = uses_.load(std::memory_order_relaxed);
  do {
    if ((uses & rule.excluded) != 0) return false;
  } while (!uses_.compare_exchange_weak(uses, uses + rule.own, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  return true;
}

void Gate::leave(UseMode mode) noexcept {
  uses_.fetch_sub(rule_of(mode).own, std::memory_order_release);
}

bool Handle::has_type(const void *handle, HandleType type) noexcept {
  if (handle == nullptr || reinterpret_cast<uintptr_t>(handle) % alignof(Handle) != 0) return false;
  const Handle *candidate = static_cast<const Handle *>(handle);
  return candidate->type_.load(std::memory_order_relaxed) == static_cast<uint32_t>(type);
}

void throw_wrong_handle(const void *handle, const char *name) {
  if (handle == nullptr) throw_error(StatusCode::kHandle, "%s is NULL", name);
  throw_error(StatusCode::kHandle, "%s is no handle of that type, or it was closed", name);
}

void throw_busy(const char *name) {
  throw_error(StatusCode::kBusy,
              "%s is in use by another call; one call at a time may change or end it", name);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// GuardedArray: memory that ends where an unreadable page begins, so one element read or written
// too far is a crash. In front of the array lies a pattern that the destructor cannot check; tests
// ask front_is_intact().

#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>

namespace colibri::test {

template <typename T>
class GuardedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  // `size` elements, all bytes set to kPattern.
  explicit GuardedArray(size_t size) : size_(size) {
    const size_t bytes = size * sizeof(T);
    mapped_bytes_ = (bytes + kFrontBytes + kPage - 1) / kPage * kPage + kPage;
    void *mapped =
        mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<uint8_t *>(mapped);
    std::fill_n(base_, mapped_bytes_ - kPage, kPattern);
    mprotect(base_ + mapped_bytes_ - kPage, kPage, PROT_NONE);
    data_ = reinterpret_cast<T *>(base_ + mapped_bytes_ - kPage - bytes);
  }
  ~GuardedArray() { munmap(base_, mapped_bytes_); }
  GuardedArray(const GuardedArray &) = delete;
  GuardedArray &operator=(const GuardedArray &) = delete;

  T *data() noexcept { return data_; }
  const T *data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  T *begin() noexcept { return data_; }
  T *end() noexcept { return data_ + size_; }
  T &operator[](size_t i) noexcept { return data_[i]; }
  const T &operator[](size_t i) const noexcept { return data_[i]; }

  bool front_is_intact() const noexcept {
    const uint8_t *first = reinterpret_cast<const uint8_t *>(data_);
    return std::all_of(static_cast<const uint8_t *>(base_), first,
                       [](uint8_t byte) { return byte == kPattern; });
  }
  // Whether element i still holds the pattern it was filled with.
  bool is_untouched(size_t i) const noexcept {
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(data_ + i);
    return std::all_of(bytes, bytes + sizeof(T), [](uint8_t byte) { return byte == kPattern; });
  }

  static constexpr uint8_t kPattern = 0xC5;

 private:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kFrontBytes = 64;

  size_t size_;
  size_t mapped_bytes_;
  uint8_t *base_;
  T *data_;
};

}  // namespace colibri::test

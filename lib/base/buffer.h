// SPDX-License-Identifier: Apache-2.0
//
// Buffer: page-aligned anonymous memory with one owner, for everything large that the planner
// prices (weights, KV, workspace, staging). Untouched pages are not resident. Small bookkeeping
// uses std::vector.

#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/status.h"

namespace colibri {

class Buffer {
 public:
  static constexpr size_t kAlignment = 4096;

  Buffer() noexcept = default;
  // Zero-filled memory. bytes 0 gives an empty buffer. Throws Error(kMemory) with the size and
  // `what`.
  Buffer(uint64_t bytes, const char *what);
  ~Buffer();
  Buffer(Buffer &&other) noexcept;
  Buffer &operator=(Buffer &&other) noexcept;
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;

  uint8_t *data() noexcept { return data_; }
  const uint8_t *data() const noexcept { return data_; }
  size_t size() const noexcept { return size_; }
  // Asks for huge pages where they lie wholly inside, before anything is written: reading weights
  // is then up to 1.7 times as fast (docs/performance.md). The system may decline. One touched byte
  // makes kHugePageBytes resident, so this is for memory that is filled from one end to the other.
  static constexpr size_t kHugePageBytes = size_t{2} << 20;
  void ask_for_huge_pages() noexcept;
  // For memory that is filled in parts: where the system uses huge pages unasked, it holds only the
  // pages that were touched all the same. Before anything is written.
  void forbid_huge_pages() noexcept;
  // Gives the pages of [offset, offset + bytes) back to the system; they read as zero from then on
  // and are not resident until written again. Both numbers are multiples of kAlignment.
  void release_pages(size_t offset, size_t bytes) noexcept;
  template <typename T>
  T *as() noexcept {
    return reinterpret_cast<T *>(data_);
  }
  template <typename T>
  const T *as() const noexcept {
    return reinterpret_cast<const T *>(data_);
  }

 private:
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace colibri

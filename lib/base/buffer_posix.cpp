// SPDX-License-Identifier: Apache-2.0
//
// Anonymous private mappings. The kernel hands out zeroed pages on first touch, which gives both
// promises of Buffer for nothing. Huge pages are the caller's to ask for or to forbid: one touched
// byte makes 2 MiB resident, and a plan counts resident bytes. Where neither was said, the system's
// setting decides.

#include <sys/mman.h>

#include <cassert>
#include <cerrno>
#include <cinttypes>
#include <system_error>
#include <utility>

#include "lib/base/buffer.h"

namespace colibri {

Buffer::Buffer(uint64_t bytes, const char *what) {
  if (bytes == 0) return;
  void *address = MAP_FAILED;
  int error = ENOMEM;
  if (bytes <= static_cast<uint64_t>(PTRDIFF_MAX) - kAlignment) {
    address = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) error = errno;
  }
  if (address == MAP_FAILED) {
    throw_error(StatusCode::kMemory,
                "%s: %" PRIu64
                " bytes could not be allocated (%s); give it less memory to plan "
                "with or free some",
                what, bytes, std::generic_category().message(error).c_str());
  }
  data_ = static_cast<uint8_t *>(address);
  size_ = static_cast<size_t>(bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

Buffer::Buffer(Buffer &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer &Buffer::operator=(Buffer &&other) noexcept {
  Buffer moved(std::move(other));
  std::swap(data_, moved.data_);
  std::swap(size_, moved.size_);
  return *this;
}

void Buffer::ask_for_huge_pages() noexcept {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t first = (start + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  const uintptr_t end = (start + size_) / kHugePageBytes * kHugePageBytes;
  if (first < end) madvise(data_ + (first - start), end - first, MADV_HUGEPAGE);
}

// A system that has no huge pages refuses, and nothing is amiss.
void Buffer::forbid_huge_pages() noexcept {
  if (size_ != 0) madvise(data_, size_, MADV_NOHUGEPAGE);
}

void Buffer::release_pages(size_t offset, size_t bytes) noexcept {
  assert(offset % kAlignment == 0 && bytes % kAlignment == 0 && offset + bytes <= size_);
  // It cannot fail for a private anonymous mapping, except that locked pages stay as they are.
  if (bytes != 0) madvise(data_ + offset, bytes, MADV_DONTNEED);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Takes the place of malloc and its family, and of mmap, for a whole test program, shared libraries
// included. Counts calls from all threads while armed, and can refuse one of them. Included by
// exactly one source file of a program; relies on glibc's __libc_* names.

#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace counted_allocator {

inline std::atomic<bool> is_armed{false};
inline std::atomic<uint64_t> n_calls{0};
inline std::atomic<uint64_t> refused_call{UINT64_MAX};  // this call and no other is refused

// Counts a call; true if it is to be refused, with errno set.
inline bool refuse() noexcept {
  if (!is_armed.load(std::memory_order_relaxed)) return false;
  const uint64_t call = n_calls.fetch_add(1, std::memory_order_relaxed);
  if (call != refused_call.load(std::memory_order_relaxed)) return false;
  errno = ENOMEM;
  return true;
}

}  // namespace counted_allocator

extern "C" {

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size) {
  return counted_allocator::refuse() ? nullptr : __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  return counted_allocator::refuse() ? nullptr : __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  return counted_allocator::refuse() ? nullptr : __libc_realloc(old, size);
}
void *memalign(size_t alignment, size_t size) {
  return counted_allocator::refuse() ? nullptr : __libc_memalign(alignment, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}
int posix_memalign(void **result, size_t alignment, size_t size) {
  void *memory = memalign(alignment, size);
  if (memory == nullptr) return ENOMEM;
  *result = memory;
  return 0;
}
void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset) {
  if (counted_allocator::refuse()) return MAP_FAILED;
  return reinterpret_cast<void *>(
      syscall(SYS_mmap, address, length, protection, flags, file, offset));
}

}  // extern "C"

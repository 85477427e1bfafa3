// SPDX-License-Identifier: Apache-2.0
//
// Replaces operator new, and malloc by symbol interposition where a sanitizer does not do the same.

#include "tests/base/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

// Constant-initialized, as malloc runs before any constructor.
std::atomic<size_t> allocations{0};

}  // namespace

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

extern "C" {
void *__libc_malloc(size_t bytes);                      // NOLINT: glibc's names
void *__libc_calloc(size_t count, size_t bytes);        // NOLINT
void *__libc_realloc(void *old, size_t bytes);          // NOLINT
void *__libc_memalign(size_t alignment, size_t bytes);  // NOLINT

void *malloc(size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, bytes);
}
}

#else

void *operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void *memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}

#endif

namespace colibri::test {

size_t count_allocations() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Takes the place of malloc by symbol interposition, or is called by a sanitizer's malloc.

#include "tests/base/allocation_counter.h"

#include <atomic>
#include <cstddef>

namespace {

// Constant-initialized, as malloc runs before any constructor.
std::atomic<size_t> allocations{0};

}  // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

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

// The sanitizers' allocators call this for every allocation, if it exists.
extern "C" __attribute__((visibility("default"))) void
__sanitizer_malloc_hook(  // NOLINT: their name
    const volatile void *, size_t) {
  allocations.fetch_add(1, std::memory_order_relaxed);
}

#endif

namespace colibri::test {

size_t count_allocations() {
  return allocations.load(std::memory_order_relaxed);
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/runtime/failing_new.h"

#include <cstdlib>
#include <new>

namespace {

constexpr uint64_t kUnlimited = UINT64_MAX;
thread_local uint64_t n_left = kUnlimited;
thread_local bool has_refused = false;

void *allocate(size_t bytes) {
  if (n_left != kUnlimited) {
    if (n_left == 0) {
      has_refused = true;
      throw std::bad_alloc();
    }
    --n_left;
  }
  void *memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void *operator new(size_t bytes) {
  return allocate(bytes);
}
void *operator new[](size_t bytes) {
  return allocate(bytes);
}
void operator delete(void *memory) noexcept {
  std::free(memory);
}
void operator delete[](void *memory) noexcept {
  std::free(memory);
}
void operator delete(void *memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void *memory, size_t) noexcept {
  std::free(memory);
}

namespace colibri::test {

AllocationLimit::AllocationLimit(uint64_t n_allowed) {
  n_left = n_allowed;
  has_refused = false;
}

AllocationLimit::~AllocationLimit() {
  n_left = kUnlimited;
}

bool AllocationLimit::was_hit() const {
  return has_refused;
}

}  // namespace colibri::test

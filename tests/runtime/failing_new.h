// SPDX-License-Identifier: Apache-2.0
//
// Makes the calling thread run out of memory at a chosen allocation. Linking failing_new.cpp
// replaces operator new of the whole program.

#pragma once

#include <cstdint>

namespace colibri::test {

// While it lives, the thread's allocation number `n_allowed` (from 0) and all later ones throw
// std::bad_alloc.
class AllocationLimit {
 public:
  explicit AllocationLimit(uint64_t n_allowed);
  ~AllocationLimit();
  AllocationLimit(const AllocationLimit &) = delete;
  AllocationLimit &operator=(const AllocationLimit &) = delete;
  // Whether an allocation was refused.
  bool was_hit() const;
};

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Overflow checks by the compiler's builtins, which are exact and cost one branch.

#include "lib/base/checked_math.h"

#include <cassert>
#include <cinttypes>

namespace colibri {

uint64_t checked_add(uint64_t a, uint64_t b, const char *what) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    throw_error(StatusCode::kFormat, "%s overflows 64 bits: %" PRIu64 " + %" PRIu64, what, a, b);
  }
  return sum;
}

uint64_t checked_multiply(uint64_t a, uint64_t b, const char *what) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw_error(StatusCode::kFormat, "%s overflows 64 bits: %" PRIu64 " * %" PRIu64, what, a, b);
  }
  return product;
}

uint64_t checked_align_up(uint64_t a, uint64_t alignment, const char *what) {
  assert(alignment != 0 && (alignment & (alignment - 1)) == 0 && alignment <= (1u << 30));
  uint64_t raised = 0;
  if (__builtin_add_overflow(a, alignment - 1, &raised)) {
    throw_error(StatusCode::kFormat,
                "%s overflows 64 bits: %" PRIu64 " rounded up to a multiple of %" PRIu64, what, a,
                alignment);
  }
  return raised & ~(alignment - 1);
}

}  // namespace colibri

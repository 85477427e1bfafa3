// SPDX-License-Identifier: Apache-2.0
//
// 64-bit arithmetic on numbers that come from a file or a caller: a result that does not fit is an
// Error of code kFormat that names `what`. The code that reads such numbers computes sizes here, or
// refuses numbers beyond bounds under which no product can overflow; what comes after relies on it.

#pragma once

#include <cstdint>

#include "lib/base/status.h"

namespace colibri {

// a + b; throws Error(kFormat, "<what> overflows ...") if it exceeds 64 bits.
uint64_t checked_add(uint64_t a, uint64_t b, const char *what);
// a * b; throws likewise.
uint64_t checked_multiply(uint64_t a, uint64_t b, const char *what);
// The least multiple of `alignment` (a power of two up to 2^30) that is >= a; throws likewise.
uint64_t checked_align_up(uint64_t a, uint64_t alignment, const char *what);
// a + b and a * b, or 2^64 - 1 where that does not fit: for sizes that are priced before anything is
// taken, where an absurd one shall price itself out of every budget.
constexpr uint64_t saturating_add(uint64_t a, uint64_t b) noexcept {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
constexpr uint64_t saturating_multiply(uint64_t a, uint64_t b) noexcept {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
// Quotient rounded up; b > 0. Cannot overflow.
constexpr uint64_t divide_up(uint64_t a, uint64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace colibri

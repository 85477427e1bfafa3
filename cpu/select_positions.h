// SPDX-License-Identifier: Apache-2.0
//
// Exact top-k of one row of scores.

#pragma once

#include <cstdint>

namespace colibri::cpu {

// Writes the top_k positions with the largest scores, ascending. Ties: lower position first (-0
// equals +0); NaN is below everything. 1 <= top_k <= n. Time grows with n alone; no memory beyond 8
// KiB of stack.
void select_positions(const float *scores, uint32_t n, uint32_t top_k, int32_t *positions) noexcept;

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// The definitions of exp and of the tree sum that every kernel set follows step by step. For the
// reference kernels and for tests.

#pragma once

#include <stddef.h>

namespace colibri::cpu {

// e^x with an error below 2 ulp. Exactly 0 below -87.336 (where the result would be subnormal),
// infinity above 88.7228, NaN for NaN. exp_ref(0) is 1.
float exp_ref(float x) noexcept;

// Sum of 16 lanes: l with l + 8, then l + 4, l + 2, l + 1. Overwrites the lanes.
float sum_lanes_ref(float lanes[16]) noexcept;

}  // namespace colibri::cpu

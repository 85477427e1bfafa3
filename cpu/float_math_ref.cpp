// SPDX-License-Identifier: Apache-2.0
//
// exp by reduction to r = x - n ln 2 with |r| <= ln 2 / 2, a polynomial of degree 6 and a scaling
// by 2^n. Each fmaf is one rounding, so a vector version with the same steps has the same bits. The
// polynomial interpolates (e^r - 1 - r) / r^2 at Chebyshev nodes; with float32 coefficients its
// relative error is below 9e-9.

#include "cpu/float_math_ref.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

namespace colibri::cpu {
namespace {

constexpr float kLeastX = -87.336f;
constexpr float kGreatestX = 88.7228f;
constexpr float kLog2E = 0x1.715476p+0f;
constexpr float kLn2High = 0x1.62e43p-1f;
constexpr float kLn2Low = -0x1.05c61p-29f;

// 2^n for n in -126 .. 127.
float power_of_two(int32_t n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

}  // namespace

float exp_ref(float x) noexcept {
  if (x != x) return x;
  if (x < kLeastX) return 0.0f;
  if (x > kGreatestX) return INFINITY;
  const float n = nearbyintf(x * kLog2E);
  float r = fmaf(-n, kLn2High, x);
  r = fmaf(-n, kLn2Low, r);
  float p = 0x1.6d1606p-10f;
  p = fmaf(p, r, 0x1.12106cp-7f);
  p = fmaf(p, r, 0x1.555516p-5f);
  p = fmaf(p, r, 0x1.5554d8p-3f);
  p = fmaf(p, r, 0.5f);
  p = fmaf(p, r, 1.0f);
  p = fmaf(p, r, 1.0f);
  // In two steps, because 2^128 is no float32. Both products are exact.
  const int32_t exponent = static_cast<int32_t>(n);
  const int32_t half = exponent >> 1;
  return (p * power_of_two(half)) * power_of_two(exponent - half);
}

float sum_lanes_ref(float lanes[16]) noexcept {
  for (size_t step = 8; step >= 1; step /= 2) {
    for (size_t l = 0; l < step; ++l) lanes[l] += lanes[l + step];
  }
  return lanes[0];
}

}  // namespace colibri::cpu

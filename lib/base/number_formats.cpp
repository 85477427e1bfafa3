// SPDX-License-Identifier: Apache-2.0
//
// Integer arithmetic on the bit patterns only, so the host's rounding mode and its flush-to-zero
// flags cannot change a result.

#include "lib/base/number_formats.h"

namespace colibri {
namespace {

constexpr uint32_t kFloatInfinity = 0x7F800000;

// value / 2^shift, to nearest, ties to even; 1 <= shift <= 31.
uint32_t shift_right_rounded(uint32_t value, int shift) noexcept {
  const uint32_t kept = value >> shift;
  const uint32_t lost = value & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  const bool is_up = lost > half || (lost == half && (kept & 1) != 0);
  return kept + (is_up ? 1 : 0);
}

// mantissa * 2^exponent with the sign bit given in place; 0 < mantissa < 2^24, the result a normal
// float.
float scale_to_float(uint32_t sign, uint32_t mantissa, int exponent) noexcept {
  const int shift = std::countl_zero(mantissa) - 8;  // brings the leading one to bit 23
  const uint32_t biased = static_cast<uint32_t>(exponent - shift + 23 + 127);
  return std::bit_cast<float>(sign | biased << 23 | ((mantissa << shift) & 0x7FFFFF));
}

}  // namespace

uint16_t float_to_bf16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > kFloatInfinity) {
    return static_cast<uint16_t>(bits >> 16 | 0x40);  // quiet, so that cutting leaves no infinity
  }
  return static_cast<uint16_t>(shift_right_rounded(bits, 16));
}

float f16_to_float(uint16_t bits) noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | kFloatInfinity | fraction << 13);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  return scale_to_float(sign, fraction, -24);
}

uint16_t float_to_f16(float value) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kFloatInfinity) {
    return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  }
  constexpr uint32_t kLeastInfinite = 0x477FF000;  // 65520, the tie between 65504 and 2^16
  if (magnitude >= kLeastInfinite) return static_cast<uint16_t>(sign | 0x7C00);
  constexpr uint32_t kLeastNormal = 0x38800000;  // 2^-14
  if (magnitude >= kLeastNormal) {
    const uint32_t rebiased = magnitude - ((127 - 15) << 23);
    return static_cast<uint16_t>(sign | shift_right_rounded(rebiased, 13));
  }
  // Subnormal: a multiple of 2^-24. Below 2^-25 (exponent 102) nothing is left.
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent < 102) return static_cast<uint16_t>(sign);
  const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  return static_cast<uint16_t>(sign | shift_right_rounded(mantissa, 126 - exponent));
}

float fp8_e4m3_to_float(uint8_t bits) noexcept {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80) << 24;
  const uint32_t exponent = bits >> 3 & 0xF;
  const uint32_t fraction = bits & 0x7;
  if (exponent == 0xF && fraction == 0x7) return std::bit_cast<float>(sign | 0x7FC00000);
  if (exponent != 0) {
    return std::bit_cast<float>(sign | (exponent + 127 - 7) << 23 | fraction << 20);
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  return scale_to_float(sign, fraction, -9);
}

float fp4_e2m1_to_float(uint8_t code) noexcept {
  constexpr float kMagnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  const float magnitude = kMagnitudes[code & 7];
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// 2^-127 is half the least normal number; the same bit makes a quiet NaN of infinity.
float e8m0_to_float(uint8_t bits) noexcept {
  const uint32_t exponent = static_cast<uint32_t>(bits) << 23;
  return std::bit_cast<float>(bits == 0 || bits == 0xFF ? exponent | 0x400000 : exponent);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Conversions between stored number formats and float32. Exact in the direction to float32;
// rounding is to nearest even in the other. Subnormals, infinities and NaN are kept. The formats
// are IEEE 754 binary16, bfloat16 (upper half of binary32), OCP FP8 E4M3 (no infinity, 0x7F and
// 0xFF NaN, largest 448), and the two of OCP MXFP4: E2M1 codes of four bits (no infinity, no NaN,
// largest 6) and E8M0 exponents (2^(bits - 127), 0xFF NaN).

#pragma once

#include <bit>
#include <cstdint>

namespace colibri {

// Rows and columns of a matrix that share one scale in the block FP8 format; blocks at the edges are
// partial.
constexpr uint32_t kFp8BlockWidth = 128;

inline float bf16_to_float(uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
uint16_t float_to_bf16(float value) noexcept;
float f16_to_float(uint16_t bits) noexcept;
uint16_t float_to_f16(float value) noexcept;
float fp8_e4m3_to_float(uint8_t bits) noexcept;
// `code` is below 16.
float fp4_e2m1_to_float(uint8_t code) noexcept;
float e8m0_to_float(uint8_t bits) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Weights of any format times float rows: the definition.
//
// Contract: FloatGemmFn in cpu/kernels.h. One output after the other, one chain each.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kernels.h"
#include "cpu/weight_scale_ref.h"

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;

// Values of the codes of MXFP4: 8..15 are the negatives of 0..7, the zero among them.
constexpr float kValues[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                               -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

float decode_f32(const uint8_t *panel, size_t d, size_t lane) {
  float value;
  memcpy(&value, panel + 4 * (d * kLanes + lane), sizeof value);
  return value;
}

uint32_t load_u16(const uint8_t *panel, size_t d, size_t lane) {
  uint16_t bits;
  memcpy(&bits, panel + 2 * (d * kLanes + lane), sizeof bits);
  return bits;
}

float decode_bf16(const uint8_t *panel, size_t d, size_t lane) {
  const uint32_t bits = load_u16(panel, d, lane) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float decode_f16(const uint8_t *panel, size_t d, size_t lane) {
  const uint32_t bits = load_u16(panel, d, lane);
  const uint32_t exponent = (bits >> 10) & 31;
  const float mantissa = static_cast<float>(bits & 1023);
  const float sign = bits >> 15 != 0 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa == 0.0f ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * ldexpf(mantissa, -24);
  return sign * ldexpf(1024.0f + mantissa, static_cast<int>(exponent) - 25);
}

float decode_fp8(const uint8_t *panel, size_t d, size_t lane) {
  const uint32_t bits = panel[d * kLanes + lane];
  const uint32_t exponent = (bits >> 3) & 15;
  const float mantissa = static_cast<float>(bits & 7);
  const float sign = bits >> 7 != 0 ? -1.0f : 1.0f;
  if ((bits & 127) == 127) return NAN;
  if (exponent == 0) return sign * ldexpf(mantissa, -9);
  return sign * ldexpf(8.0f + mantissa, static_cast<int>(exponent) - 10);
}

float decode_int8(const uint8_t *panel, size_t d, size_t lane) {
  const int32_t stored = panel[(d / 4) * 64 + 4 * lane + d % 4];
  return static_cast<float>(stored - 128);
}

float decode_int4(const uint8_t *panel, size_t d, size_t lane) {
  const int32_t byte = panel[(d / 8) * 64 + 4 * lane + d % 4];
  const int32_t stored = d % 8 < 4 ? byte & 15 : byte >> 4;
  return static_cast<float>(stored - 8);
}

float decode_mxfp4(const uint8_t *panel, size_t d, size_t lane) {
  const int32_t byte = panel[(d / 8) * 64 + 4 * lane + d % 4];
  return kValues[d % 8 < 4 ? byte & 15 : byte >> 4];
}

using DecodeFn = float (*)(const uint8_t *panel, size_t d, size_t lane);
using ScaleFn = float (*)(const GemmWeights &weights, size_t panel, size_t group, size_t lane);

struct Format {
  DecodeFn decode;
  ScaleFn scale;
};

float multiply_column(const GemmWeights &weights, Format format, size_t panel, size_t lane,
                      const float *x) {
  const uint8_t *values = weights.values + panel * weights.panel_bytes;
  float acc = 0.0f;
  for (size_t d = 0; d < weights.depth; ++d) {
    float w = format.decode(values, d, lane);
    if (weights.scales != nullptr) w *= format.scale(weights, panel, d / weights.group, lane);
    acc = fmaf(w, x[d], acc);
  }
  return acc;
}

void multiply(const FloatGemmArgs &args, Format format) {
  for (size_t panel = args.first_panel; panel < args.first_panel + args.n_panels; ++panel) {
    for (size_t r = 0; r < args.n_rows; ++r) {
      const size_t in = args.x_rows != nullptr ? static_cast<size_t>(args.x_rows[r]) : r;
      const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const size_t column = panel * kLanes + lane;
        if (column >= args.n_columns) break;
        args.y[out * args.y_stride + column] =
            multiply_column(args.weights, format, panel, lane, args.x + in * args.x_stride);
      }
    }
  }
}

}  // namespace

void float_gemm_f32_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_f32, load_scale_ref});
}
void float_gemm_bf16_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_bf16, load_scale_ref});
}
void float_gemm_f16_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_f16, load_scale_ref});
}
void float_gemm_fp8_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_fp8, load_scale_ref});
}
void float_gemm_int8_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_int8, load_scale_ref});
}
void float_gemm_int4_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_int4, load_scale_ref});
}
void float_gemm_mxfp4_ref(const FloatGemmArgs &args) noexcept {
  multiply(args, {decode_mxfp4, load_exponent_ref});
}

}  // namespace colibri::cpu

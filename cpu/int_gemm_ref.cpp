// SPDX-License-Identifier: Apache-2.0
//
// INT8, INT4 and MXFP4 weights times int8 rows: the definition.
//
// Contract: IntGemmFn in cpu/kernels.h. The offset is taken off each weight, so the sums of the
// activations are not needed here.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels.h"
#include "cpu/weight_scale_ref.h"

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;

// Twice the values of the codes of MXFP4, whole numbers.
constexpr int32_t kDoubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

int32_t decode_int8(const uint8_t *panel, size_t d, size_t lane) {
  return static_cast<int32_t>(panel[(d / 4) * 64 + 4 * lane + d % 4]) - 128;
}

int32_t decode_int4(const uint8_t *panel, size_t d, size_t lane) {
  const int32_t byte = panel[(d / 8) * 64 + 4 * lane + d % 4];
  return (d % 8 < 4 ? byte & 15 : byte >> 4) - 8;
}

int32_t decode_mxfp4(const uint8_t *panel, size_t d, size_t lane) {
  const int32_t byte = panel[(d / 8) * 64 + 4 * lane + d % 4];
  return kDoubled[d % 8 < 4 ? byte & 15 : byte >> 4];
}

float half_exponent(const GemmWeights &weights, size_t panel, size_t group, size_t lane) {
  return load_exponent_ref(weights, panel, group, lane) * 0.5f;
}

using DecodeFn = int32_t (*)(const uint8_t *panel, size_t d, size_t lane);
using ScaleFn = float (*)(const GemmWeights &weights, size_t panel, size_t group, size_t lane);

struct Format {
  DecodeFn decode;
  ScaleFn scale;
};

float multiply_column(const IntGemmArgs &args, Format format, size_t panel, size_t lane,
                      size_t row) {
  const GemmWeights &weights = args.weights;
  const uint8_t *values = weights.values + panel * weights.panel_bytes;
  const int8_t *q = args.q + row * args.q_stride;
  float acc = 0.0f;
  for (size_t first = 0, g = 0; first < weights.depth; first += weights.group, ++g) {
    const size_t left = weights.depth - first;
    const size_t last = first + (left < weights.group ? left : weights.group);
    int32_t dot = 0;
    for (size_t d = first; d < last; ++d) dot += format.decode(values, d, lane) * q[d];
    const float scale =
        format.scale(weights, panel, g, lane) * args.scales[row * args.group_stride + g];
    acc = fmaf(static_cast<float>(dot), scale, acc);
  }
  return acc;
}

void multiply(const IntGemmArgs &args, Format format) {
  for (size_t panel = args.first_panel; panel < args.first_panel + args.n_panels; ++panel) {
    for (size_t r = 0; r < args.n_rows; ++r) {
      const size_t in = args.x_rows != nullptr ? static_cast<size_t>(args.x_rows[r]) : r;
      const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const size_t column = panel * kLanes + lane;
        if (column >= args.n_columns) break;
        args.y[out * args.y_stride + column] = multiply_column(args, format, panel, lane, in);
      }
    }
  }
}

}  // namespace

void int8_gemm_ref(const IntGemmArgs &args) noexcept {
  multiply(args, {decode_int8, load_scale_ref});
}
void int4_gemm_ref(const IntGemmArgs &args) noexcept {
  multiply(args, {decode_int4, load_scale_ref});
}
void mxfp4_gemm_ref(const IntGemmArgs &args) noexcept {
  multiply(args, {decode_mxfp4, half_exponent});
}

}  // namespace colibri::cpu

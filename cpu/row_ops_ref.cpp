// SPDX-License-Identifier: Apache-2.0
//
// Operations on one row: quantise, norms, activations, sums. The definition.
//
// Contracts in cpu/kernels.h.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/float_math_ref.h"
#include "cpu/kernels.h"
#include "lib/base/number_formats.h"

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;

void quantise_group(const float *x, size_t n, int8_t *q, float *scale, int32_t *sum) {
  float amax = 0.0f;
  bool is_finite = true;
  for (size_t i = 0; i < n; ++i) {
    is_finite = is_finite && fabsf(x[i]) < INFINITY;
    amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
  }
  const float inverse = 127.0f / amax;
  const bool is_zero = inverse == INFINITY;
  *scale = !is_finite ? NAN : is_zero ? 0.0f : amax / 127.0f;
  *sum = 0;
  for (size_t i = 0; i < n; ++i) {
    q[i] = is_finite && !is_zero ? static_cast<int8_t>(nearbyintf(x[i] * inverse)) : int8_t{0};
    *sum += q[i];
  }
}

}  // namespace

void quantise_row_ref(const float *x, size_t depth, size_t group, int8_t *q, float *scales,
                      int32_t *sums) noexcept {
  for (size_t first = 0, g = 0; first < depth; first += group, ++g) {
    const size_t left = depth - first;
    quantise_group(x + first, left < group ? left : group, q + first, scales + g, sums + g);
  }
  for (size_t d = depth; d % 8 != 0; ++d) q[d] = 0;
}

void rms_norm_row_ref(const float *x, const float *weight, float eps, size_t n, float *y) noexcept {
  float lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kLanes] = fmaf(x[i], x[i], lanes[i % kLanes]);
  const float mean = sum_lanes_ref(lanes) / static_cast<float>(n);
  const float r = 1.0f / sqrtf(mean + eps);
  for (size_t i = 0; i < n; ++i) y[i] = weight[i] * (x[i] * r);
}

void layer_norm_row_ref(const float *x, const float *weight, const float *bias, float eps, size_t n,
                        float *y) noexcept {
  float lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kLanes] += x[i];
  const float mean = sum_lanes_ref(lanes) / static_cast<float>(n);
  float squares[kLanes] = {};
  for (size_t i = 0; i < n; ++i) {
    const float centred = x[i] - mean;
    squares[i % kLanes] = fmaf(centred, centred, squares[i % kLanes]);
  }
  const float variance = sum_lanes_ref(squares) / static_cast<float>(n);
  const float r = 1.0f / sqrtf(variance + eps);
  for (size_t i = 0; i < n; ++i) y[i] = fmaf(weight[i], (x[i] - mean) * r, bias[i]);
}

void bf16_row_ref(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = float_to_bf16(x[i]);
}

void f16_row_ref(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = float_to_f16(x[i]);
}

void silu_row_ref(const float *gate, const float *up, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = (gate[i] / (1.0f + exp_ref(-gate[i]))) * up[i];
}

void clamped_swish_row_ref(const ClampedSwishArgs &args) noexcept {
  for (size_t i = 0; i < args.n; ++i) {
    const float a = args.gate[i] > args.limit ? args.limit : args.gate[i];
    const float up = args.up[i];
    const float b = up > args.limit ? args.limit : up < -args.limit ? -args.limit : up;
    args.y[i] = (a / (1.0f + exp_ref(-(args.alpha * a)))) * (b + 1.0f);
  }
}

void sigmoid_row_ref(const float *x, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; ++i) y[i] = 1.0f / (1.0f + exp_ref(-x[i]));
}

void softmax_row_ref(const float *x, size_t n, float *y) noexcept {
  float most = -INFINITY;
  for (size_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  float lanes[kLanes] = {};
  for (size_t i = 0; i < n; ++i) {
    y[i] = exp_ref(x[i] - most);
    lanes[i % kLanes] += y[i];
  }
  const float sum = sum_lanes_ref(lanes);
  for (size_t i = 0; i < n; ++i) y[i] /= sum;
}

void add_row_ref(float *x, const float *y, size_t n) noexcept {
  for (size_t i = 0; i < n; ++i) x[i] += y[i];
}

void combine_row_ref(const CombineRowArgs &args) noexcept {
  for (size_t i = 0; i < args.n; ++i) {
    float acc = 0.0f;
    for (size_t k = 0; k < args.top_k; ++k) {
      acc = fmaf(args.weights[k], args.out[k * args.out_stride + i], acc);
    }
    if (args.shared != nullptr) {
      acc = args.shared_weight != nullptr ? fmaf(*args.shared_weight, args.shared[i], acc)
                                          : acc + args.shared[i];
    }
    args.x[i] += acc;
  }
}

}  // namespace colibri::cpu

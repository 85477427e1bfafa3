// SPDX-License-Identifier: Apache-2.0
//
// Attention of one batch row: the definition.
//
// Contract: AttentionFn in cpu/kernels.h. Scores of a block live in the scratch; `out` holds o
// between blocks.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/float_math_ref.h"
#include "cpu/kernels.h"

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;

size_t position_of(const AttentionKernelArgs &args, size_t key) {
  return args.positions != nullptr ? static_cast<size_t>(args.positions[key]) : key;
}

// Scores of keys first .. first + n - 1 become p; gives m_b and l_b.
void score_block(const AttentionKernelArgs &args, const float *query, size_t first, size_t n,
                 float *p, float *block_max, float *block_sum) {
  float m = -INFINITY;
  for (size_t k = 0; k < n; ++k) {
    const float *key = args.keys + position_of(args, first + k) * args.key_stride;
    float acc = 0.0f;
    for (size_t d = 0; d < args.key_width; ++d) acc = fmaf(query[d], key[d], acc);
    p[k] = args.scale * acc;
    m = p[k] > m ? p[k] : m;
  }
  float lanes[kLanes] = {};
  for (size_t k = 0; k < n; ++k) {
    p[k] = exp_ref(p[k] - m);
    lanes[k % kLanes] += p[k];
  }
  *block_max = m;
  *block_sum = sum_lanes_ref(lanes);
}

// o_b[c] of the block.
float weigh_values(const AttentionKernelArgs &args, size_t first, size_t n, const float *p,
                   size_t c) {
  float acc = 0.0f;
  for (size_t k = 0; k < n; ++k) {
    acc = fmaf(p[k], args.values[position_of(args, first + k) * args.value_stride + c], acc);
  }
  return acc;
}

void attend_head(const AttentionKernelArgs &args, size_t head) {
  const float *query = args.queries + head * args.query_stride;
  float *out = args.out + head * args.out_stride;
  float *p = args.scratch;
  float m = 0.0f;
  float l = 0.0f;
  for (size_t first = 0; first < args.n_keys; first += kAttentionBlock) {
    const size_t left = args.n_keys - first;
    const size_t n = left < kAttentionBlock ? left : kAttentionBlock;
    float block_max, block_sum;
    score_block(args, query, first, n, p, &block_max, &block_sum);
    if (first == 0) {
      for (size_t c = 0; c < args.value_width; ++c) out[c] = weigh_values(args, first, n, p, c);
      m = block_max;
      l = block_sum;
      continue;
    }
    const float merged_max = m > block_max ? m : block_max;
    const float a = exp_ref(m - merged_max);
    const float b = exp_ref(block_max - merged_max);
    for (size_t c = 0; c < args.value_width; ++c) {
      out[c] = fmaf(out[c], a, weigh_values(args, first, n, p, c) * b);
    }
    l = fmaf(l, a, block_sum * b);
    m = merged_max;
  }
  const float r = 1.0f / l;
  for (size_t c = 0; c < args.value_width; ++c) out[c] *= r;
}

}  // namespace

void attention_ref(const AttentionKernelArgs &args) noexcept {
  for (size_t head = 0; head < args.n_heads; ++head) attend_head(args, head);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Attention of query vectors over one span of keys, the joining of spans and the end of a row: the
// definition.
//
// Contracts: AttentionSpanFn, AttentionMergeFn and AttentionFinishFn in cpu/kernels.h. Scores of a
// block live in the scratch; `out` holds o between blocks.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/float_math_ref.h"
#include "cpu/kernels.h"
#include "lib/base/number_formats.h"

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;

// Elements of rows, by number format.
struct F32 {
  using Stored = float;
  static float widen(float value) { return value; }
};
struct Bf16 {
  using Stored = uint16_t;
  static float widen(uint16_t stored) {
    const uint32_t bits = static_cast<uint32_t>(stored) << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
  }
};
struct F16 {
  using Stored = uint16_t;
  static float widen(uint16_t stored) { return f16_to_float(stored); }
};

// Numbers of one block that one query sees: [first, end).
struct Range {
  size_t first, end;
};

template <typename Format>
const typename Format::Stored *row_of(const AttentionSpanArgs &args, const void *rows,
                                      size_t stride, size_t number) {
  size_t place = args.positions != nullptr ? static_cast<size_t>(args.positions[number]) : number;
  if (args.ring != 0) place %= args.ring;
  return static_cast<const typename Format::Stored *>(rows) + place * stride;
}

// Scores of the range become p, p[0] that of its first number; gives m_b and l_b.
template <typename Format>
void score_block(const AttentionSpanArgs &args, const float *query, const Range &range, float *p,
                 float *block_numbers) {
  const size_t n = range.end - range.first;
  float m = -INFINITY;
  for (size_t k = 0; k < n; ++k) {
    const auto *key = row_of<Format>(args, args.keys, args.key_stride, range.first + k);
    float acc = 0.0f;
    for (size_t d = 0; d < args.key_width; ++d) acc = fmaf(query[d], Format::widen(key[d]), acc);
    p[k] = args.scale * acc;
    m = p[k] > m ? p[k] : m;
  }
  float lanes[kLanes] = {};
  for (size_t k = 0; k < n; ++k) {
    p[k] = exp_ref(p[k] - m);
    lanes[(range.first + k) % kLanes] += p[k];
  }
  block_numbers[0] = m;
  block_numbers[1] = sum_lanes_ref(lanes);
}

// o_b[c] of the block.
template <typename Format>
float weigh_values(const AttentionSpanArgs &args, const Range &range, const float *p, size_t c) {
  float acc = 0.0f;
  for (size_t k = range.first; k < range.end; ++k) {
    const auto *value = row_of<Format>(args, args.values, args.value_stride, k);
    acc = fmaf(p[k - range.first], Format::widen(value[c]), acc);
  }
  return acc;
}

// What is there and what comes next: M, a and b of a merge.
struct Factors {
  float merged_max, a, b;
};
Factors merge_factors(float m, float next_max) {
  const float merged_max = m > next_max ? m : next_max;
  return {merged_max, exp_ref(m - merged_max), exp_ref(next_max - merged_max)};
}

void merge_numbers(const Factors &factors, const float *next_numbers, float *numbers) {
  numbers[0] = factors.merged_max;
  numbers[1] = fmaf(numbers[1], factors.a, next_numbers[1] * factors.b);
}

template <typename Format>
void attend(const AttentionSpanArgs &args, const AttentionQuery &query) {
  bool is_first = true;
  for (size_t block = 0; block < kAttentionSpan; block += kAttentionBlock) {
    const size_t first = args.first_number + block;
    const size_t end = first + kAttentionBlock;
    const Range range = {query.first > first ? query.first : first,
                         query.end < end ? query.end : end};
    if (range.first >= range.end) continue;
    float *p = args.scratch;
    float block_numbers[2];
    score_block<Format>(args, query.query, range, p, block_numbers);
    if (is_first) {
      for (size_t c = 0; c < args.value_width; ++c) {
        query.out[c] = weigh_values<Format>(args, range, p, c);
      }
      query.numbers[0] = block_numbers[0];
      query.numbers[1] = block_numbers[1];
      is_first = false;
      continue;
    }
    const Factors factors = merge_factors(query.numbers[0], block_numbers[0]);
    for (size_t c = 0; c < args.value_width; ++c) {
      const float next = weigh_values<Format>(args, range, p, c) * factors.b;
      query.out[c] = fmaf(query.out[c], factors.a, next);
    }
    merge_numbers(factors, block_numbers, query.numbers);
  }
}

template <typename Format>
void attend_all(const AttentionSpanArgs &args) {
  for (size_t i = 0; i < args.n_queries; ++i) attend<Format>(args, args.queries[i]);
}

}  // namespace

void attention_span_f32_ref(const AttentionSpanArgs &args) noexcept {
  attend_all<F32>(args);
}
void attention_span_bf16_ref(const AttentionSpanArgs &args) noexcept {
  attend_all<Bf16>(args);
}
void attention_span_f16_ref(const AttentionSpanArgs &args) noexcept {
  attend_all<F16>(args);
}

void attention_merge_ref(float *numbers, float *out, const float *next_numbers,
                         const float *next_out, size_t width) noexcept {
  const Factors factors = merge_factors(numbers[0], next_numbers[0]);
  for (size_t c = 0; c < width; ++c) {
    out[c] = fmaf(out[c], factors.a, next_out[c] * factors.b);
  }
  merge_numbers(factors, next_numbers, numbers);
}

void attention_finish_ref(const float *numbers, const float *sink, float *out,
                          size_t width) noexcept {
  float r = 1.0f / numbers[1];
  if (sink != nullptr) {
    const Factors factors = merge_factors(numbers[0], *sink);
    r = factors.a / fmaf(numbers[1], factors.a, factors.b);
  }
  for (size_t c = 0; c < width; ++c) out[c] *= r;
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Attention of one batch row: AVX2.
//
// Contract: AttentionFn in cpu/kernels.h. Definition: attention_ref.cpp, equal bit for bit.
//
// Keys     the keys of a block are gathered once for all heads into panels [width][16], so that a
//          key is a lane; a row of a panel is two registers.
// Tiles    scores: 4 heads by one panel; values: 4 heads by 16 columns. A missing head repeats the
//          last one and is not stored.
// Scratch  one panel; scores of all heads [heads][64], which become p; m, l and three more numbers
//          per head.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/float_math_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kPanelKeys = 16;
constexpr size_t kTileHeads = 4;

struct HeadNumbers {
  float *m, *l, *block_max, *block_sum, *old_factor;
};

// The keys of one block. Entries from n on repeat the last key.
struct Block {
  size_t n;
  const float *keys[kAttentionBlock];
  const float *values[kAttentionBlock];
};

inline void find_block(const AttentionKernelArgs &args, size_t first, Block *block) {
  const size_t left = args.n_keys - first;
  block->n = left < kAttentionBlock ? left : kAttentionBlock;
  for (size_t k = 0; k < kAttentionBlock; ++k) {
    const size_t key = first + (k < block->n ? k : block->n - 1);
    const size_t position =
        args.positions != nullptr ? static_cast<size_t>(args.positions[key]) : key;
    block->keys[k] = args.keys + position * args.key_stride;
    block->values[k] = args.values + position * args.value_stride;
  }
}

// Four depths of keys i and i + 4, one per 128-bit lane.
inline __m256 load_halves(const float *const *keys, size_t i, size_t d) {
  const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(keys[i] + d));
  return _mm256_insertf128_ps(low, _mm_loadu_ps(keys[i + 4] + d), 1);
}

// Eight keys to one half of [width][16].
inline void transpose_half(const float *const *keys, size_t width, float *panel) {
  size_t d = 0;
  for (; d + 4 <= width; d += 4) {
    const __m256 a = load_halves(keys, 0, d);
    const __m256 b = load_halves(keys, 1, d);
    const __m256 c = load_halves(keys, 2, d);
    const __m256 e = load_halves(keys, 3, d);
    const __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
    const __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    const __m256d ce_low = _mm256_castps_pd(_mm256_unpacklo_ps(c, e));
    const __m256d ce_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, e));
    float *to = panel + d * kPanelKeys;
    _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, ce_low)));
    _mm256_storeu_ps(to + kPanelKeys, _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, ce_low)));
    _mm256_storeu_ps(to + 2 * kPanelKeys, _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, ce_high)));
    _mm256_storeu_ps(to + 3 * kPanelKeys, _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, ce_high)));
  }
  for (; d < width; ++d) {
    for (size_t k = 0; k < kLanes; ++k) panel[d * kPanelKeys + k] = keys[k][d];
  }
}

// Scores of one panel for the heads first_head .. of one tile.
inline void score_heads(const AttentionKernelArgs &args, const float *panel, size_t first_head,
                        float *scores) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kTileHeads ? left : kTileHeads;
  const float *queries[kTileHeads];
  __m256 acc[kTileHeads][2];
  for (size_t h = 0; h < kTileHeads; ++h) {
    queries[h] = args.queries + (first_head + (h < n ? h : n - 1)) * args.query_stride;
    acc[h][0] = acc[h][1] = _mm256_setzero_ps();
  }
  for (size_t d = 0; d < args.key_width; ++d) {
    const __m256 low = _mm256_loadu_ps(panel + d * kPanelKeys);
    const __m256 high = _mm256_loadu_ps(panel + d * kPanelKeys + kLanes);
    for (size_t h = 0; h < kTileHeads; ++h) {
      const __m256 query = _mm256_set1_ps(queries[h][d]);
      acc[h][0] = _mm256_fmadd_ps(query, low, acc[h][0]);
      acc[h][1] = _mm256_fmadd_ps(query, high, acc[h][1]);
    }
  }
  const __m256 scale = _mm256_set1_ps(args.scale);
  for (size_t h = 0; h < kTileHeads; ++h) {
    if (h >= n) break;
    float *row = scores + (first_head + h) * kAttentionBlock;
    _mm256_storeu_ps(row, _mm256_mul_ps(scale, acc[h][0]));
    _mm256_storeu_ps(row + kLanes, _mm256_mul_ps(scale, acc[h][1]));
  }
}

inline void score_block(const AttentionKernelArgs &args, const Block &block, float *panel,
                        float *scores) {
  for (size_t k = 0; k < block.n; k += kPanelKeys) {
    transpose_half(block.keys + k, args.key_width, panel);
    transpose_half(block.keys + k + kLanes, args.key_width, panel + kLanes);
    for (size_t h = 0; h < args.n_heads; h += kTileHeads) score_heads(args, panel, h, scores + k);
  }
}

// Scores of one head become p; gives m_b and l_b.
inline void exponentiate(float *scores, size_t n, float *block_max, float *block_sum) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 most = lowest;
  for (size_t k = 0; k < n; k += kLanes) {
    const __m256 lanes = _mm256_castsi256_ps(first_lanes(n - k));
    const __m256 s = _mm256_blendv_ps(lowest, _mm256_loadu_ps(scores + k), lanes);
    most = _mm256_max_ps(s, most);
  }
  *block_max = max_lane(most);
  const __m256 shift = _mm256_set1_ps(*block_max);
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t k = 0; k < n; k += kLanes) {
    const __m256 lanes = _mm256_castsi256_ps(first_lanes(n - k));
    const __m256 exponent = _mm256_sub_ps(_mm256_loadu_ps(scores + k), shift);
    const __m256 p = _mm256_and_ps(lanes, exp_lanes(exponent));
    _mm256_storeu_ps(scores + k, p);
    __m256 &sum = sums[k / kLanes % 2];
    sum = _mm256_add_ps(sum, p);
  }
  *block_sum = sum_lanes(sums[0], sums[1]);
}

// m and l of all heads; leaves the factors a and b in old_factor and block_max.
inline void merge_numbers(size_t n_heads, const HeadNumbers &numbers) {
  for (size_t h = 0; h < n_heads; h += kLanes) {
    const __m256 m = _mm256_loadu_ps(numbers.m + h);
    const __m256 block_max = _mm256_loadu_ps(numbers.block_max + h);
    const __m256 merged = _mm256_max_ps(m, block_max);
    const __m256 a = exp_lanes(_mm256_sub_ps(m, merged));
    const __m256 b = exp_lanes(_mm256_sub_ps(block_max, merged));
    const __m256 sum = _mm256_mul_ps(_mm256_loadu_ps(numbers.block_sum + h), b);
    _mm256_storeu_ps(numbers.l + h, _mm256_fmadd_ps(_mm256_loadu_ps(numbers.l + h), a, sum));
    _mm256_storeu_ps(numbers.m + h, merged);
    _mm256_storeu_ps(numbers.old_factor + h, a);
    _mm256_storeu_ps(numbers.block_max + h, b);
  }
}

// o_b of some heads and 16 columns, stored as the first block or merged into `out`.
inline void weigh_tile(const AttentionKernelArgs &args, const Block &block, const float *p,
                       const HeadNumbers &numbers, size_t first_head, size_t column,
                       bool is_first) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kTileHeads ? left : kTileHeads;
  const size_t n_columns[2] = {args.value_width - column,
                               lanes_left(args.value_width, column + kLanes)};
  const float *weights[kTileHeads];
  __m256 acc[kTileHeads][2];
  for (size_t h = 0; h < kTileHeads; ++h) {
    weights[h] = p + (first_head + (h < n ? h : n - 1)) * kAttentionBlock;
    acc[h][0] = acc[h][1] = _mm256_setzero_ps();
  }
  for (size_t k = 0; k < block.n; ++k) {
    const __m256 low = load_first(block.values[k] + column, n_columns[0]);
    const __m256 high = load_first(block.values[k] + column + kLanes, n_columns[1]);
    for (size_t h = 0; h < kTileHeads; ++h) {
      const __m256 weight = _mm256_set1_ps(weights[h][k]);
      acc[h][0] = _mm256_fmadd_ps(weight, low, acc[h][0]);
      acc[h][1] = _mm256_fmadd_ps(weight, high, acc[h][1]);
    }
  }
  for (size_t h = 0; h < kTileHeads; ++h) {
    if (h >= n) break;
    float *out = args.out + (first_head + h) * args.out_stride + column;
    const __m256 a = _mm256_set1_ps(is_first ? 0.0f : numbers.old_factor[first_head + h]);
    const __m256 b = _mm256_set1_ps(is_first ? 0.0f : numbers.block_max[first_head + h]);
    for (size_t half = 0; half < 2; ++half) {
      __m256 merged = acc[h][half];
      if (!is_first) {
        const __m256 old = load_first(out + half * kLanes, n_columns[half]);
        merged = _mm256_fmadd_ps(old, a, _mm256_mul_ps(merged, b));
      }
      store_first(out + half * kLanes, n_columns[half], merged);
    }
  }
}

inline void divide_by_sum(const AttentionKernelArgs &args, const HeadNumbers &numbers) {
  for (size_t h = 0; h < args.n_heads; ++h) {
    float *out = args.out + h * args.out_stride;
    const __m256 r = _mm256_set1_ps(1.0f / numbers.l[h]);
    for (size_t c = 0; c < args.value_width; c += kLanes) {
      const size_t n = args.value_width - c;
      store_first(out + c, n, _mm256_mul_ps(load_first(out + c, n), r));
    }
  }
}

}  // namespace

void attention_avx2(const AttentionKernelArgs &args) noexcept {
  const size_t padded_heads = (args.n_heads + 15) / 16 * 16;
  float *panel = args.scratch;
  float *scores = panel + kAttentionBlock * args.key_width;
  float *of_heads = scores + kAttentionBlock * padded_heads;
  const HeadNumbers numbers = {of_heads, of_heads + padded_heads, of_heads + 2 * padded_heads,
                               of_heads + 3 * padded_heads, of_heads + 4 * padded_heads};
  for (size_t h = args.n_heads; h < padded_heads; ++h) {
    numbers.m[h] = numbers.l[h] = numbers.block_max[h] = numbers.block_sum[h] = 0.0f;
  }
  for (size_t first = 0; first < args.n_keys; first += kAttentionBlock) {
    const bool is_first = first == 0;
    Block block;
    find_block(args, first, &block);
    score_block(args, block, panel, scores);
    for (size_t h = 0; h < args.n_heads; ++h) {
      exponentiate(scores + h * kAttentionBlock, block.n,
                   (is_first ? numbers.m : numbers.block_max) + h,
                   (is_first ? numbers.l : numbers.block_sum) + h);
    }
    if (!is_first) merge_numbers(args.n_heads, numbers);
    for (size_t c = 0; c < args.value_width; c += 2 * kLanes) {
      for (size_t h = 0; h < args.n_heads; h += kTileHeads) {
        weigh_tile(args, block, scores, numbers, h, c, is_first);
      }
    }
  }
  divide_by_sum(args, numbers);
}

}  // namespace colibri::cpu

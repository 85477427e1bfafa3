// SPDX-License-Identifier: Apache-2.0
//
// Attention of one batch row: AVX-512.
//
// Contract: AttentionFn in cpu/kernels.h. Definition: attention_ref.cpp, equal bit for bit.
//
// Keys     the keys of a block are gathered once for all heads into panels [width][16], so that a
//          key is a lane.
// Tiles    scores: 8 heads by 2 panels; values: 4 heads by 64 columns. A missing head repeats the
//          last one and is not stored.
// Scratch  two panels; scores of all heads [heads][64], which become p; m, l and three more numbers
//          per head.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/float_math_avx512.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kScoreHeads = 8;
constexpr size_t kValueHeads = 4;
constexpr size_t kValueVectors = 4;

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

// Four depths of keys i, i + 4, i + 8, i + 12, one per 128-bit lane.
inline __m512 load_quarters(const float *const *keys, size_t i, size_t d) {
  __m512 quarters = _mm512_castps128_ps512(_mm_loadu_ps(keys[i] + d));
  quarters = _mm512_insertf32x4(quarters, _mm_loadu_ps(keys[i + 4] + d), 1);
  quarters = _mm512_insertf32x4(quarters, _mm_loadu_ps(keys[i + 8] + d), 2);
  return _mm512_insertf32x4(quarters, _mm_loadu_ps(keys[i + 12] + d), 3);
}

// Sixteen keys to [width][16].
inline void transpose_panel(const float *const *keys, size_t width, float *panel) {
  size_t d = 0;
  for (; d + 4 <= width; d += 4) {
    const __m512 a = load_quarters(keys, 0, d);
    const __m512 b = load_quarters(keys, 1, d);
    const __m512 c = load_quarters(keys, 2, d);
    const __m512 e = load_quarters(keys, 3, d);
    const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
    const __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
    const __m512d ce_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, e));
    const __m512d ce_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, e));
    float *to = panel + d * kLanes;
    _mm512_storeu_pd(to, _mm512_unpacklo_pd(ab_low, ce_low));
    _mm512_storeu_pd(to + kLanes, _mm512_unpackhi_pd(ab_low, ce_low));
    _mm512_storeu_pd(to + 2 * kLanes, _mm512_unpacklo_pd(ab_high, ce_high));
    _mm512_storeu_pd(to + 3 * kLanes, _mm512_unpackhi_pd(ab_high, ce_high));
  }
  for (; d < width; ++d) {
    for (size_t k = 0; k < kLanes; ++k) panel[d * kLanes + k] = keys[k][d];
  }
}

// Scores of kPanels panels for the heads first_head .. of one tile.
template <size_t kPanels>
inline void score_heads(const AttentionKernelArgs &args, const float *panels, size_t first_head,
                        float *scores) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kScoreHeads ? left : kScoreHeads;
  const size_t panel_floats = args.key_width * kLanes;
  const float *queries[kScoreHeads];
  __m512 acc[kScoreHeads][kPanels];
  for (size_t h = 0; h < kScoreHeads; ++h) {
    queries[h] = args.queries + (first_head + (h < n ? h : n - 1)) * args.query_stride;
    for (size_t p = 0; p < kPanels; ++p) acc[h][p] = _mm512_setzero_ps();
  }
  for (size_t d = 0; d < args.key_width; ++d) {
    __m512 keys[kPanels];
    for (size_t p = 0; p < kPanels; ++p) {
      keys[p] = _mm512_loadu_ps(panels + p * panel_floats + d * kLanes);
    }
    for (size_t h = 0; h < kScoreHeads; ++h) {
      const __m512 query = _mm512_set1_ps(queries[h][d]);
      for (size_t p = 0; p < kPanels; ++p) acc[h][p] = _mm512_fmadd_ps(query, keys[p], acc[h][p]);
    }
  }
  const __m512 scale = _mm512_set1_ps(args.scale);
  for (size_t h = 0; h < kScoreHeads; ++h) {
    if (h >= n) break;
    float *row = scores + (first_head + h) * kAttentionBlock;
    for (size_t p = 0; p < kPanels; ++p) {
      _mm512_storeu_ps(row + p * kLanes, _mm512_mul_ps(scale, acc[h][p]));
    }
  }
}

inline void score_block(const AttentionKernelArgs &args, const Block &block, float *panels,
                        float *scores) {
  const size_t n_panels = (block.n + kLanes - 1) / kLanes;
  for (size_t p = 0; p < n_panels; p += 2) {
    const size_t n = n_panels - p < 2 ? 1 : 2;
    for (size_t i = 0; i < n; ++i) {
      transpose_panel(block.keys + (p + i) * kLanes, args.key_width,
                      panels + i * args.key_width * kLanes);
    }
    for (size_t h = 0; h < args.n_heads; h += kScoreHeads) {
      if (n == 2) {
        score_heads<2>(args, panels, h, scores + p * kLanes);
      } else {
        score_heads<1>(args, panels, h, scores + p * kLanes);
      }
    }
  }
}

// Scores of one head become p; gives m_b and l_b.
inline void exponentiate(float *scores, size_t n, float *block_max, float *block_sum) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 most = lowest;
  for (size_t k = 0; k < n; k += kLanes) {
    const __m512 s = _mm512_mask_loadu_ps(lowest, first_lanes(n - k), scores + k);
    most = _mm512_max_ps(s, most);
  }
  *block_max = _mm512_reduce_max_ps(most);
  const __m512 shift = _mm512_set1_ps(*block_max);
  __m512 sums = _mm512_setzero_ps();
  for (size_t k = 0; k < n; k += kLanes) {
    const __mmask16 lanes = first_lanes(n - k);
    const __m512 s = _mm512_maskz_loadu_ps(lanes, scores + k);
    const __m512 p = _mm512_maskz_mov_ps(lanes, exp_lanes(_mm512_sub_ps(s, shift)));
    _mm512_storeu_ps(scores + k, p);
    sums = _mm512_add_ps(sums, p);
  }
  *block_sum = sum_lanes(sums);
}

// m and l of all heads; leaves the factors a and b in old_factor and block_max.
inline void merge_numbers(size_t n_heads, const HeadNumbers &numbers) {
  for (size_t h = 0; h < n_heads; h += kLanes) {
    const __m512 m = _mm512_loadu_ps(numbers.m + h);
    const __m512 block_max = _mm512_loadu_ps(numbers.block_max + h);
    const __m512 merged = _mm512_max_ps(m, block_max);
    const __m512 a = exp_lanes(_mm512_sub_ps(m, merged));
    const __m512 b = exp_lanes(_mm512_sub_ps(block_max, merged));
    const __m512 sum = _mm512_mul_ps(_mm512_loadu_ps(numbers.block_sum + h), b);
    _mm512_storeu_ps(numbers.l + h, _mm512_fmadd_ps(_mm512_loadu_ps(numbers.l + h), a, sum));
    _mm512_storeu_ps(numbers.m + h, merged);
    _mm512_storeu_ps(numbers.old_factor + h, a);
    _mm512_storeu_ps(numbers.block_max + h, b);
  }
}

// o_b of some heads and 64 columns, stored as the first block or merged into `out`.
inline void weigh_tile(const AttentionKernelArgs &args, const Block &block, const float *p,
                       const HeadNumbers &numbers, size_t first_head, size_t column,
                       bool is_first) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kValueHeads ? left : kValueHeads;
  const float *weights[kValueHeads];
  __m512 acc[kValueHeads][kValueVectors];
  __mmask16 lanes[kValueVectors];
  for (size_t v = 0; v < kValueVectors; ++v) {
    const size_t at = column + v * kLanes;
    lanes[v] = at < args.value_width ? first_lanes(args.value_width - at) : __mmask16{0};
  }
  for (size_t h = 0; h < kValueHeads; ++h) {
    weights[h] = p + (first_head + (h < n ? h : n - 1)) * kAttentionBlock;
    for (size_t v = 0; v < kValueVectors; ++v) acc[h][v] = _mm512_setzero_ps();
  }
  for (size_t k = 0; k < block.n; ++k) {
    __m512 values[kValueVectors];
    for (size_t v = 0; v < kValueVectors; ++v) {
      values[v] = _mm512_maskz_loadu_ps(lanes[v], block.values[k] + column + v * kLanes);
    }
    for (size_t h = 0; h < kValueHeads; ++h) {
      const __m512 weight = _mm512_set1_ps(weights[h][k]);
      for (size_t v = 0; v < kValueVectors; ++v) {
        acc[h][v] = _mm512_fmadd_ps(weight, values[v], acc[h][v]);
      }
    }
  }
  for (size_t h = 0; h < kValueHeads; ++h) {
    if (h >= n) break;
    float *out = args.out + (first_head + h) * args.out_stride + column;
    const __m512 a = _mm512_set1_ps(is_first ? 0.0f : numbers.old_factor[first_head + h]);
    const __m512 b = _mm512_set1_ps(is_first ? 0.0f : numbers.block_max[first_head + h]);
    for (size_t v = 0; v < kValueVectors; ++v) {
      __m512 merged = acc[h][v];
      if (!is_first) {
        const __m512 old = _mm512_maskz_loadu_ps(lanes[v], out + v * kLanes);
        merged = _mm512_fmadd_ps(old, a, _mm512_mul_ps(merged, b));
      }
      _mm512_mask_storeu_ps(out + v * kLanes, lanes[v], merged);
    }
  }
}

inline void divide_by_sum(const AttentionKernelArgs &args, const HeadNumbers &numbers) {
  for (size_t h = 0; h < args.n_heads; ++h) {
    float *out = args.out + h * args.out_stride;
    const __m512 r = _mm512_set1_ps(1.0f / numbers.l[h]);
    for (size_t c = 0; c < args.value_width; c += kLanes) {
      const __mmask16 lanes = first_lanes(args.value_width - c);
      _mm512_mask_storeu_ps(out + c, lanes,
                            _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, out + c), r));
    }
  }
}

}  // namespace

void attention_avx512(const AttentionKernelArgs &args) noexcept {
  const size_t padded_heads = (args.n_heads + kLanes - 1) / kLanes * kLanes;
  float *panels = args.scratch;
  float *scores = panels + kAttentionBlock * args.key_width;
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
    score_block(args, block, panels, scores);
    for (size_t h = 0; h < args.n_heads; ++h) {
      exponentiate(scores + h * kAttentionBlock, block.n,
                   (is_first ? numbers.m : numbers.block_max) + h,
                   (is_first ? numbers.l : numbers.block_sum) + h);
    }
    if (!is_first) merge_numbers(args.n_heads, numbers);
    for (size_t c = 0; c < args.value_width; c += kValueVectors * kLanes) {
      for (size_t h = 0; h < args.n_heads; h += kValueHeads) {
        weigh_tile(args, block, scores, numbers, h, c, is_first);
      }
    }
  }
  divide_by_sum(args, numbers);
}

}  // namespace colibri::cpu

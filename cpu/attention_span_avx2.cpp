// SPDX-License-Identifier: Apache-2.0
//
// Attention of query vectors over one span of keys, the joining of spans and the end of a row:
// AVX2.
//
// Contracts: AttentionSpanFn, AttentionMergeFn and AttentionFinishFn in cpu/kernels.h. Definition:
// attention_span_ref.cpp, equal bit for bit.
//
// Queries  are transposed once per call into groups [width][8]: a query is a lane, and a key is
//          read where it lies, one element for 8 queries. Lanes of missing queries repeat the last
//          one and go nowhere.
// Tiles    scores: 1 group by 8 keys or 2 by 4; values: 1 to 4 queries by 16 columns.
// Seen     each query has its own range of numbers. Scores are computed for all queries of a group
//          and those not seen are masked; values are run over the numbers that all queries of a
//          tile see, and the edges query by query.
// Widening rows of 16-bit formats are widened a block at a time: a tile reads them many times.
// Scratch  groups of queries; scores of a block [group][64][8], which become p; widened rows; four
//          numbers per query.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/attention_blocks_avx2.h"
#include "cpu/float_math_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kSumLanes = 16;  // of a tree sum
constexpr size_t kTileKeys = 8;
constexpr size_t kUnroll = 4;  // depths: one step of all pointers for four
constexpr size_t kTileQueries = 4;
constexpr size_t kTileVectors = 2;

using Block = BlockOf<kLanes>;

// Up to 8 elements as floats, zeros above n; nothing else is read.
struct F32 {
  using Stored = float;
  static constexpr bool is_wide = true;
  static inline __m256 load(const float *at, size_t n) { return load_first(at, n); }
};
inline __m128i load_halves(const uint16_t *at, size_t n) {
  if (n >= kLanes) return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
  alignas(16) uint16_t halves[kLanes] = {};
  for (size_t i = 0; i < n; ++i) halves[i] = at[i];
  return _mm_load_si128(reinterpret_cast<const __m128i *>(halves));
}
struct Bf16 {
  using Stored = uint16_t;
  static constexpr bool is_wide = false;
  static inline __m256 load(const uint16_t *at, size_t n) {
    const __m256i bits = _mm256_cvtepu16_epi32(load_halves(at, n));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  }
};
struct F16 {
  using Stored = uint16_t;
  static constexpr bool is_wide = false;
  static inline __m256 load(const uint16_t *at, size_t n) {
    return _mm256_cvtph_ps(load_halves(at, n));
  }
};

template <typename Format>
inline void widen_row(const typename Format::Stored *row, size_t width, float *to) {
  for (size_t c = 0; c < width; c += kLanes) {
    _mm256_storeu_ps(to + c, Format::load(row + c, width - c));
  }
}

// Four depths of rows i and i + 4, one per 128-bit lane.
inline __m256 load_pair(const float *const *rows, size_t i, size_t d) {
  const __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(rows[i] + d));
  return _mm256_insertf128_ps(low, _mm_loadu_ps(rows[i + 4] + d), 1);
}

// Eight queries to [width][8].
inline void transpose_group(const float *const *rows, size_t width, float *group) {
  size_t d = 0;
  for (; d + 4 <= width; d += 4) {
    const __m256 a = load_pair(rows, 0, d);
    const __m256 b = load_pair(rows, 1, d);
    const __m256 c = load_pair(rows, 2, d);
    const __m256 e = load_pair(rows, 3, d);
    const __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
    const __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
    const __m256d ce_low = _mm256_castps_pd(_mm256_unpacklo_ps(c, e));
    const __m256d ce_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, e));
    float *to = group + d * kLanes;
    _mm256_storeu_ps(to, _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, ce_low)));
    _mm256_storeu_ps(to + kLanes, _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, ce_low)));
    _mm256_storeu_ps(to + 2 * kLanes, _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, ce_high)));
    _mm256_storeu_ps(to + 3 * kLanes, _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, ce_high)));
  }
  for (; d < width; ++d) {
    for (size_t i = 0; i < kLanes; ++i) group[d * kLanes + i] = rows[i][d];
  }
}

inline void transpose_queries(const AttentionSpanArgs &args, float *queries) {
  for (size_t i = 0; i < args.n_queries; i += kLanes) {
    const float *rows[kLanes];
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const size_t q = i + lane < args.n_queries ? i + lane : args.n_queries - 1;
      rows[lane] = args.queries[q].query;
    }
    transpose_group(rows, args.key_width, queries + i * args.key_width);
  }
}

// One depth of the chains of a score tile.
template <size_t kGroups, size_t kKeys>
inline void add_depth(const float *const *rows, const float *queries, size_t group_floats, size_t d,
                      __m256 (*acc)[kGroups]) {
  __m256 query[kGroups];
  for (size_t g = 0; g < kGroups; ++g) {
    query[g] = _mm256_loadu_ps(queries + g * group_floats + d * kLanes);
  }
  for (size_t k = 0; k < kKeys; ++k) {
    const __m256 key = _mm256_set1_ps(rows[k][d]);
    for (size_t g = 0; g < kGroups; ++g) acc[k][g] = _mm256_fmadd_ps(query[g], key, acc[k][g]);
  }
}

// Scores of some keys for kGroups groups side by side.
template <size_t kGroups, size_t kKeys>
[[gnu::noinline]] void score_tile(const AttentionSpanArgs &args, const float *const *keys,
                                  const float *queries, float *weights) {
  const size_t group_floats = args.key_width * kLanes;
  __m256 acc[kKeys][kGroups];
  const float *rows[kKeys];
  for (size_t k = 0; k < kKeys; ++k) {
    rows[k] = keys[k];
    for (size_t g = 0; g < kGroups; ++g) acc[k][g] = _mm256_setzero_ps();
  }
  const size_t width = args.key_width;
  size_t d = 0;
  for (; d + kUnroll <= width; d += kUnroll) {
    for (size_t i = 0; i < kUnroll; ++i) {
      add_depth<kGroups, kKeys>(rows, queries, group_floats, d + i, acc);
    }
  }
  for (; d < width; ++d) add_depth<kGroups, kKeys>(rows, queries, group_floats, d, acc);
  const __m256 scale = _mm256_set1_ps(args.scale);
  for (size_t g = 0; g < kGroups; ++g) {
    float *to = weights + g * kAttentionBlock * kLanes;
    for (size_t k = 0; k < kKeys; ++k) {
      _mm256_storeu_ps(to + k * kLanes, _mm256_mul_ps(scale, acc[k][g]));
    }
  }
}

inline void score_block(const AttentionSpanArgs &args, const Block &block, const Scratch &scratch) {
  const size_t n_groups = pad<kLanes>(args.n_queries) / kLanes;
  const size_t first = block.low / kTileKeys * kTileKeys;
  for (size_t k = first; k < block.high; k += kTileKeys) {
    for (size_t g = 0; g < n_groups; g += 2) {
      const bool is_pair = g + 1 < n_groups;
      const bool has_left = block.group_lows[g] < k + kTileKeys && block.group_highs[g] > k;
      const bool has_right =
          is_pair && block.group_lows[g + 1] < k + kTileKeys && block.group_highs[g + 1] > k;
      const size_t from = has_left ? g : g + 1;
      const float *queries = scratch.queries + from * args.key_width * kLanes;
      float *weights = scratch.weights + (from * kAttentionBlock + k) * kLanes;
      if (has_left && has_right) {
        score_tile<2, 4>(args, block.keys + k, queries, weights);
        score_tile<2, 4>(args, block.keys + k + 4, queries, weights + 4 * kLanes);
      } else if (has_left || has_right) {
        score_tile<1, 8>(args, block.keys + k, queries, weights);
      }
    }
  }
}

// Mask of the lanes of a group that see number k of the block.
inline __m256 seers(__m256i lows, __m256i highs, size_t k) {
  const __m256i number = _mm256_set1_epi32(static_cast<int>(k));
  const __m256i is_below = _mm256_cmpgt_epi32(lows, number);
  return _mm256_castsi256_ps(_mm256_andnot_si256(is_below, _mm256_cmpgt_epi32(highs, number)));
}

// Scores of one group become p, 0 where a number is not seen; gives m_b and l_b of its queries.
template <bool kIsWhole>
[[gnu::noinline]] void exponentiate(const Block &block, size_t group, float *weights,
                                    float *block_max, float *block_sum) {
  const auto *lows_at = reinterpret_cast<const __m256i *>(block.lows + group * kLanes);
  const auto *highs_at = reinterpret_cast<const __m256i *>(block.highs + group * kLanes);
  const __m256i lows = _mm256_load_si256(lows_at);
  const __m256i highs = _mm256_load_si256(highs_at);
  const size_t low = kIsWhole ? 0 : block.group_lows[group];
  const size_t high = kIsWhole ? kAttentionBlock : block.group_highs[group];
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 most[4] = {lowest, lowest, lowest, lowest};
  if constexpr (kIsWhole) {
    for (size_t k = 0; k < kAttentionBlock; k += 4) {
      for (size_t i = 0; i < 4; ++i) {
        most[i] = _mm256_max_ps(_mm256_loadu_ps(weights + (k + i) * kLanes), most[i]);
      }
    }
  } else {
    for (size_t k = low; k < high; ++k) {
      const __m256 s = _mm256_loadu_ps(weights + k * kLanes);
      most[0] = _mm256_max_ps(_mm256_blendv_ps(lowest, s, seers(lows, highs, k)), most[0]);
    }
  }
  const __m256 m = _mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3]));
  __m256 sums[kSumLanes];
  for (size_t lane = 0; lane < kSumLanes; ++lane) {
    sums[lane] = _mm256_setzero_ps();
    for (size_t k = lane; k < kAttentionBlock; k += kSumLanes) {
      if (!kIsWhole && (k < low || k >= high)) continue;
      __m256 p = exp_lanes(_mm256_sub_ps(_mm256_loadu_ps(weights + k * kLanes), m));
      if (!kIsWhole) p = _mm256_and_ps(seers(lows, highs, k), p);
      _mm256_storeu_ps(weights + k * kLanes, p);
      sums[lane] = _mm256_add_ps(sums[lane], p);
    }
  }
  for (size_t step = kSumLanes / 2; step >= 1; step /= 2) {
    for (size_t lane = 0; lane < step; ++lane) {
      sums[lane] = _mm256_add_ps(sums[lane], sums[lane + step]);
    }
  }
  _mm256_store_ps(block_max, m);
  _mm256_store_ps(block_sum, sums[0]);
}

// m and l of one group; leaves the factors a in block_sum and b in block_max.
inline void merge_numbers(const Block &block, size_t group, const Scratch &scratch) {
  const size_t at = group * kLanes;
  const __m256i uses = _mm256_load_si256(reinterpret_cast<const __m256i *>(block.uses + at));
  const __m256 begins = _mm256_castsi256_ps(_mm256_cmpeq_epi32(uses, _mm256_set1_epi32(kBegins)));
  const __m256 merges = _mm256_castsi256_ps(_mm256_cmpeq_epi32(uses, _mm256_set1_epi32(kMerges)));
  const __m256 m = _mm256_load_ps(scratch.m + at);
  const __m256 l = _mm256_load_ps(scratch.l + at);
  const __m256 block_max = _mm256_load_ps(scratch.block_max + at);
  const __m256 block_sum = _mm256_load_ps(scratch.block_sum + at);
  const __m256 merged = _mm256_max_ps(m, block_max);
  const __m256 a = exp_lanes(_mm256_sub_ps(m, merged));
  const __m256 b = exp_lanes(_mm256_sub_ps(block_max, merged));
  const __m256 sum = _mm256_fmadd_ps(l, a, _mm256_mul_ps(block_sum, b));
  const __m256 begun_m = _mm256_blendv_ps(m, block_max, begins);
  const __m256 begun_l = _mm256_blendv_ps(l, block_sum, begins);
  _mm256_store_ps(scratch.m + at, _mm256_blendv_ps(begun_m, merged, merges));
  _mm256_store_ps(scratch.l + at, _mm256_blendv_ps(begun_l, sum, merges));
  _mm256_store_ps(scratch.block_sum + at, a);
  _mm256_store_ps(scratch.block_max + at, b);
}

// Some queries and 16 columns. The pointers to out begin at the first of the columns.
template <size_t kQueries>
struct ValueTile {
  const float *weights[kQueries];
  size_t lows[kQueries], highs[kQueries];
  float *outs[kQueries];
  bool merges[kQueries];
  float a[kQueries], b[kQueries];
  size_t column;
  size_t n_columns[kTileVectors];
};

template <size_t kQueries>
inline ValueTile<kQueries> make_tile(const AttentionSpanArgs &args, const Block &block,
                                     const Scratch &scratch, const uint32_t *queries,
                                     size_t column) {
  ValueTile<kQueries> tile;
  for (size_t i = 0; i < kQueries; ++i) {
    const size_t q = queries[i];
    tile.weights[i] = scratch.weights + q / kLanes * kAttentionBlock * kLanes + q % kLanes;
    tile.lows[i] = static_cast<size_t>(block.lows[q]);
    tile.highs[i] = static_cast<size_t>(block.highs[q]);
    tile.outs[i] = args.queries[q].out + column;
    tile.merges[i] = block.uses[q] == kMerges;
    tile.a[i] = scratch.block_sum[q];
    tile.b[i] = scratch.block_max[q];
  }
  tile.column = column;
  for (size_t v = 0; v < kTileVectors; ++v) {
    tile.n_columns[v] = lanes_left(args.value_width, column + v * kLanes);
  }
  return tile;
}

// o_b of numbers that all queries see, stored or merged into `out`.
template <size_t kQueries>
[[gnu::noinline]] void weigh_common(const ValueTile<kQueries> &tile, const float *const *values,
                                    size_t low, size_t high) {
  __m256 acc[kQueries][kTileVectors];
  const float *weights[kQueries];
  size_t n_columns[kTileVectors];
  for (size_t v = 0; v < kTileVectors; ++v) n_columns[v] = tile.n_columns[v];
  for (size_t i = 0; i < kQueries; ++i) {
    weights[i] = tile.weights[i];
    for (size_t v = 0; v < kTileVectors; ++v) acc[i][v] = _mm256_setzero_ps();
  }
  const size_t column = tile.column;
  for (size_t k = low; k < high; ++k) {
    __m256 value[kTileVectors];
    for (size_t v = 0; v < kTileVectors; ++v) {
      value[v] = load_first(values[k] + column + v * kLanes, n_columns[v]);
    }
    for (size_t i = 0; i < kQueries; ++i) {
      const __m256 weight = _mm256_set1_ps(weights[i][k * kLanes]);
      for (size_t v = 0; v < kTileVectors; ++v) {
        acc[i][v] = _mm256_fmadd_ps(weight, value[v], acc[i][v]);
      }
    }
  }
  // GCC would keep the sums in memory if these loops were unrolled late.
#pragma GCC unroll 4
  for (size_t i = 0; i < kQueries; ++i) {
    float *out = tile.outs[i];
    const __m256 a = _mm256_set1_ps(tile.a[i]);
    const __m256 b = _mm256_set1_ps(tile.b[i]);
#pragma GCC unroll 4
    for (size_t v = 0; v < kTileVectors; ++v) {
      __m256 result = acc[i][v];
      if (tile.merges[i]) {
        const __m256 old = load_first(out + v * kLanes, n_columns[v]);
        result = _mm256_fmadd_ps(old, a, _mm256_mul_ps(result, b));
      }
      store_first(out + v * kLanes, n_columns[v], result);
    }
  }
}

// The same where queries see different numbers. A chain begins with its lowest number: those that
// all see go first, through registers, if they are the lowest of all; the others follow query by
// query.
template <size_t kQueries>
[[gnu::noinline]] void weigh_edges(const ValueTile<kQueries> &tile, const float *const *values,
                                   size_t common_high) {
  alignas(64) float sums[kQueries][kTileVectors * kLanes] = {};
  if (common_high > tile.lows[0]) {
    ValueTile<kQueries> common = tile;
    for (size_t i = 0; i < kQueries; ++i) {
      common.outs[i] = sums[i];
      common.merges[i] = false;
    }
    weigh_common<kQueries>(common, values, tile.lows[0], common_high);
  }
  const auto &n_columns = tile.n_columns;
  for (size_t i = 0; i < kQueries; ++i) {
    const size_t first = common_high > tile.lows[i] ? common_high : tile.lows[i];
    for (size_t v = 0; v < kTileVectors; ++v) {
      __m256 acc = _mm256_load_ps(sums[i] + v * kLanes);
      for (size_t k = first; k < tile.highs[i]; ++k) {
        const __m256 value = load_first(values[k] + tile.column + v * kLanes, n_columns[v]);
        acc = _mm256_fmadd_ps(_mm256_set1_ps(tile.weights[i][k * kLanes]), value, acc);
      }
      float *out = tile.outs[i] + v * kLanes;
      if (tile.merges[i]) {
        const __m256 next = _mm256_mul_ps(acc, _mm256_set1_ps(tile.b[i]));
        acc = _mm256_fmadd_ps(load_first(out, n_columns[v]), _mm256_set1_ps(tile.a[i]), next);
      }
      store_first(out, n_columns[v], acc);
    }
  }
}

template <size_t kQueries>
inline void weigh_tile(const AttentionSpanArgs &args, const Block &block, const Scratch &scratch,
                       const uint32_t *queries, size_t column) {
  const ValueTile<kQueries> tile = make_tile<kQueries>(args, block, scratch, queries, column);
  bool is_even = true;
  bool begins_evenly = true;
  size_t common_high = tile.highs[0];
  for (size_t i = 1; i < kQueries; ++i) {
    begins_evenly = begins_evenly && tile.lows[i] == tile.lows[0];
    is_even = is_even && tile.highs[i] == tile.highs[0];
    common_high = tile.highs[i] < common_high ? tile.highs[i] : common_high;
  }
  if (is_even && begins_evenly) {
    weigh_common<kQueries>(tile, block.values, tile.lows[0], common_high);
  } else {
    weigh_edges<kQueries>(tile, block.values, begins_evenly ? common_high : 0);
  }
}

inline void weigh_block(const AttentionSpanArgs &args, const Block &block, const Scratch &scratch) {
  for (size_t c = 0; c < args.value_width; c += kTileVectors * kLanes) {
    size_t i = 0;
    for (; i + kTileQueries <= block.n_active; i += kTileQueries) {
      weigh_tile<kTileQueries>(args, block, scratch, block.active + i, c);
    }
    if (block.n_active - i == 3) {
      weigh_tile<3>(args, block, scratch, block.active + i, c);
    } else if (block.n_active - i == 2) {
      weigh_tile<2>(args, block, scratch, block.active + i, c);
    } else if (block.n_active - i == 1) {
      weigh_tile<1>(args, block, scratch, block.active + i, c);
    }
  }
}

template <typename Format>
inline void attend(const AttentionSpanArgs &args) {
  const Scratch scratch = divide_scratch<kLanes>(args);
  bool has_begun[kMaxAttentionQueries] = {};
  bool is_transposed = false;
  size_t latest_first = 0;
  size_t least_end = SIZE_MAX;
  for (size_t i = 0; i < args.n_queries; ++i) {
    const AttentionQuery &query = args.queries[i];
    latest_first = query.first > latest_first ? query.first : latest_first;
    least_end = query.end < least_end ? query.end : least_end;
  }
  Block block;
  for (size_t at = 0; at < kAttentionSpan; at += kAttentionBlock) {
    const size_t first = args.first_number + at;
    const bool sees_whole = latest_first <= first && least_end >= first + kAttentionBlock;
    if (!find_ranges(args, first, sees_whole, has_begun, &block)) continue;
    if (!is_transposed) transpose_queries(args, scratch.queries);
    is_transposed = true;
    find_rows<Format>(args, first, args.keys, args.key_stride, args.key_width, block, scratch,
                      widen_row<Format>, block.keys);
    score_block(args, block, scratch);
    for (size_t g = 0; g * kLanes < args.n_queries; ++g) {
      if (block.group_lows[g] >= block.group_highs[g]) continue;
      float *weights = scratch.weights + g * kAttentionBlock * kLanes;
      float *block_max = scratch.block_max + g * kLanes;
      float *block_sum = scratch.block_sum + g * kLanes;
      if (block.is_whole[g]) {
        exponentiate<true>(block, g, weights, block_max, block_sum);
      } else {
        exponentiate<false>(block, g, weights, block_max, block_sum);
      }
      merge_numbers(block, g, scratch);
    }
    find_rows<Format>(args, first, args.values, args.value_stride, args.value_width, block, scratch,
                      widen_row<Format>, block.values);
    weigh_block(args, block, scratch);
  }
  for (size_t i = 0; i < args.n_queries; ++i) {
    if (!has_begun[i]) continue;
    args.queries[i].numbers[0] = scratch.m[i];
    args.queries[i].numbers[1] = scratch.l[i];
  }
}

inline float exp_one(float x) {
  return _mm256_cvtss_f32(exp_lanes(_mm256_set1_ps(x)));
}

inline float fma_one(float a, float b, float c) {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

}  // namespace

void attention_span_f32_avx2(const AttentionSpanArgs &args) noexcept {
  attend<F32>(args);
}
void attention_span_bf16_avx2(const AttentionSpanArgs &args) noexcept {
  attend<Bf16>(args);
}
void attention_span_f16_avx2(const AttentionSpanArgs &args) noexcept {
  attend<F16>(args);
}

void attention_merge_avx2(float *numbers, float *out, const float *next_numbers,
                          const float *next_out, size_t width) noexcept {
  const float merged = numbers[0] > next_numbers[0] ? numbers[0] : next_numbers[0];
  const float a = exp_one(numbers[0] - merged);
  const float b = exp_one(next_numbers[0] - merged);
  const __m256 old_factor = _mm256_set1_ps(a);
  const __m256 next_factor = _mm256_set1_ps(b);
  for (size_t c = 0; c < width; c += kLanes) {
    const size_t n = width - c;
    const __m256 next = _mm256_mul_ps(load_first(next_out + c, n), next_factor);
    store_first(out + c, n, _mm256_fmadd_ps(load_first(out + c, n), old_factor, next));
  }
  numbers[0] = merged;
  numbers[1] = fma_one(numbers[1], a, next_numbers[1] * b);
}

void attention_finish_avx2(const float *numbers, const float *sink, float *out,
                           size_t width) noexcept {
  float factor = 1.0f / numbers[1];
  if (sink != nullptr) {
    const float most = numbers[0] > *sink ? numbers[0] : *sink;
    const float a = exp_one(numbers[0] - most);
    factor = a / fma_one(numbers[1], a, exp_one(*sink - most));
  }
  const __m256 r = _mm256_set1_ps(factor);
  for (size_t c = 0; c < width; c += kLanes) {
    const size_t n = width - c;
    store_first(out + c, n, _mm256_mul_ps(load_first(out + c, n), r));
  }
}

}  // namespace colibri::cpu

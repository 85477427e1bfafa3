// SPDX-License-Identifier: Apache-2.0
//
// Tiles of integer products: AVX-512 VNNI. What INT8, INT4 and MXFP4 share, for the kernel files of
// this set alone. Everything is in an unnamed namespace, so no baseline object can pick one up.
//
// Signs   VPDPBUSD takes unsigned times signed. Weights are read as stored; the offset is taken out
//         by starting the accumulator of a group at -offset * sum of its activations.
// Tails   missing columns are computed in the padded panel and not stored; a missing depth is a
//         zero activation.
//
// Three tiles, chosen by measurement (docs/performance.md has the tables):
//   one panel, up to 8 rows     a panel is one stream of 64-byte lines, read ahead by software. The
//                               dot of a row is kept in several chains, since VPDPBUSD starts every
//                               cycle but takes four or five: with one chain, four rows ran at 0.77
//                               of the peak in cache, with two at 0.86.
//   four panels, few rows       four streams at once, read ahead by the processor alone: on Zen 4
//                               32 GB/s where one stream gives 21 to 27 with any prefetch. Eight
//                               streams are slower again (21).
//   two panels, middling rows   two streams, read ahead by software: 25 GB/s with four rows where
//                               one stream gives 21 to 24.
// The last two only in the sets for processors that follow many streams (kernel_registry.cpp).
// Those of Intel want four streams read ahead by software as well (21 GB/s with one row; 19
// without, 17 with one stream), and two panels for all tiles of five rows and more: decoding and
// scales take turns with VPDPBUSD on the same two ports there, and eight rows of two panels run at
// 0.67 of the peak in cache where one panel gives 0.56.
// More rows than 8 are split evenly, so that no tile is left with one row; from the second tile on
// a panel comes from the cache. Decoding nibbles once for all tiles would gain nothing: with 8 rows
// the three decoding instructions run beside 16 VPDPBUSD, on other ports.

#pragma once

#include "cpu/int_rows_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kLineBytes = 64;
constexpr size_t kMaxRows = 8;
constexpr size_t kPair = 2;

// Spread over a register where it is needed: left alone, GCC 12 spreads the activations of a whole
// group into memory first and reads them back, which costs 8 % with two rows.
inline __m512i four_depths(const int8_t *q) {
  int32_t word;
  __builtin_memcpy(&word, q, sizeof word);
  __m512i depths = _mm512_set1_epi32(word);
  __asm__ volatile("" : "+v"(depths));
  return depths;
}

// What formats share. Depths of a group that is unrolled as a whole: with 4 rows, 8 % faster in
// cache than a loop.
struct FloatScales {
  static constexpr size_t kUnrolledGroup = 64;
  static inline __m512 load_scales(const GemmWeights &weights, const uint8_t *at) {
    if (!weights.has_bf16_scales) return _mm512_loadu_ps(at);
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
};

// 8 depths in a line: 0..3 in the low nibbles, 4..7 in the high ones. There is no 8-bit shift, so
// 16-bit lanes are shifted and the bits that cross from the neighbour byte are masked away. `chain`
// is the first of the chains that the line adds to.
struct NibbleLines {
  static constexpr size_t kLineDepths = 8;
  static constexpr size_t kLineChains = 2;
  struct Line {
    __m512i low, high;
  };
  static inline Line nibbles(__m512i line) {
    const __m512i mask = _mm512_set1_epi8(0x0F);
    return {_mm512_and_si512(line, mask), _mm512_and_si512(_mm512_srli_epi16(line, 4), mask)};
  }
  template <size_t kChains>
  static inline void add(const Line &line, const int8_t *q, size_t chain, __m512i *dots) {
    __m512i &low = dots[chain % kChains];
    low = _mm512_dpbusd_epi32(low, line.low, four_depths(q));
    __m512i &high = dots[(chain + 1) % kChains];
    high = _mm512_dpbusd_epi32(high, line.high, four_depths(q + 4));
  }
  static inline void add_pair(const Line *lines, const int8_t *q, __m512i *dots) {
    const __m512i low = four_depths(q);
    const __m512i high = four_depths(q + 4);
    for (size_t p = 0; p < kPair; ++p) dots[p] = _mm512_dpbusd_epi32(dots[p], lines[p].low, low);
    for (size_t p = 0; p < kPair; ++p) dots[p] = _mm512_dpbusd_epi32(dots[p], lines[p].high, high);
  }
};

// How a stream is read ahead by software, and into which cache: locality as the compiler counts it.
constexpr int kFirstLevel = 3;
constexpr int kSecondLevel = 2;
struct NoPrefetch {
  static inline void ask(const uint8_t *) {}
  static inline void ask_scales(const uint8_t *, size_t) {}
};
template <int kLocality, size_t kBytes>
struct Prefetch {
  static inline void ask(const uint8_t *line) { __builtin_prefetch(line + kBytes, 0, kLocality); }
  // As many groups of 64 INT4 depths ahead as the lines are.
  static inline void ask_scales(const uint8_t *at, size_t group_bytes) {
    constexpr size_t kGroups = kBytes / 512;
    __builtin_prefetch(at + kGroups * group_bytes, 0, kLocality);
  }
};
// Into the second level: what is far ahead must not push the rows out of the first.
using PrefetchFar = Prefetch<kSecondLevel, 16384>;
using PrefetchPair = Prefetch<kSecondLevel, 4096>;
using PrefetchNear = Prefetch<kFirstLevel, 4096>;

using TileRows = Rows<kMaxRows>;

template <size_t kRows>
inline Rows<kRows> first_rows(const TileRows &all) {
  Rows<kRows> rows;
  for (size_t r = 0; r < kRows; ++r) {
    rows.q[r] = all.q[r];
    rows.scales[r] = all.scales[r];
    rows.sums[r] = all.sums[r];
    rows.y[r] = all.y[r];
  }
  return rows;
}

template <size_t kChains>
inline __m512i join_chains(const __m512i *dots) {
  if (kChains == 1) return dots[0];
  if (kChains == 2) return _mm512_add_epi32(dots[0], dots[1]);
  return _mm512_add_epi32(_mm512_add_epi32(dots[0], dots[1]), _mm512_add_epi32(dots[2], dots[3]));
}

// acc = fma(float(dot), weight_scale * activation_scale, acc).
inline __m512 add_group(__m512i dot, __m512 weight_scale, float activation_scale, __m512 acc) {
  const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_set1_ps(activation_scale));
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), scale, acc);
}

template <typename Format, size_t kRows, size_t kChains, typename Ahead>
inline void add_line(const uint8_t *at, const int8_t *const *q, size_t d, size_t index,
                     __m512i (*dots)[kChains]) {
  Ahead::ask(at);
  const typename Format::Line line = Format::decode(_mm512_loadu_si512(at));
  for (size_t r = 0; r < kRows; ++r) {
    Format::template add<kChains>(line, q[r] + d, index * Format::kLineChains, dots[r]);
  }
}

// The lines of depths first .. last - 1; returns the end.
template <typename Format, size_t kRows, size_t kChains, typename Ahead>
inline const uint8_t *add_lines(const uint8_t *at, const int8_t *const *q, size_t first,
                                size_t last, __m512i (*dots)[kChains]) {
  constexpr size_t kLines = Format::kUnrolledGroup / Format::kLineDepths;
  if (last - first == Format::kUnrolledGroup) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLines; ++i) {
      add_line<Format, kRows, kChains, Ahead>(at + i * kLineBytes, q,
                                              first + i * Format::kLineDepths, i, dots);
    }
    return at + kLines * kLineBytes;
  }
  for (size_t d = first; d < last; d += Format::kLineDepths, at += kLineBytes) {
    add_line<Format, kRows, kChains, Ahead>(at, q, d, 0, dots);
  }
  return at;
}

// Arguments are copied, so that the compiler keeps them in registers.
template <typename Format, size_t kRows, size_t kChains, typename Ahead>
void multiply_panel(const GemmWeights weights, size_t panel, const TileRows &all_rows,
                    __mmask16 columns) {
  const Rows<kRows> rows = first_rows<kRows>(all_rows);
  const uint8_t *at = weights.values + panel * weights.panel_bytes;
  const uint8_t *scales = weights.scales + panel * weights.scale_panel_bytes;
  __m512 acc[kRows];
  for (size_t r = 0; r < kRows; ++r) acc[r] = _mm512_setzero_ps();
  for (size_t first = 0, g = 0; first < weights.depth; first += weights.group, ++g) {
    __m512i dots[kRows][kChains];
    for (size_t r = 0; r < kRows; ++r) {
      dots[r][0] = _mm512_set1_epi32(-Format::kOffset * rows.sums[r][g]);
      for (size_t chain = 1; chain < kChains; ++chain) dots[r][chain] = _mm512_setzero_si512();
    }
    at = add_lines<Format, kRows, kChains, Ahead>(at, rows.q, first, group_end(weights, first),
                                                  dots);
    Ahead::ask_scales(scales, weights.scale_group_bytes);
    const __m512 weight_scale = Format::load_scales(weights, scales);
    scales += weights.scale_group_bytes;
    for (size_t r = 0; r < kRows; ++r) {
      acc[r] = add_group(join_chains<kChains>(dots[r]), weight_scale, rows.scales[r][g], acc[r]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    _mm512_mask_storeu_ps(rows.y[r] + panel * kLanes, columns, acc[r]);
  }
}

// A line of each panel of a pair.
template <typename Format, size_t kRows, typename Ahead>
inline void add_pair_line(const uint8_t *at, size_t panel_bytes, const int8_t *const *q, size_t d,
                          __m512i (*dots)[kPair]) {
  typename Format::Line lines[kPair];
  for (size_t p = 0; p < kPair; ++p) {
    Ahead::ask(at + p * panel_bytes);
    lines[p] = Format::decode(_mm512_loadu_si512(at + p * panel_bytes));
  }
  for (size_t r = 0; r < kRows; ++r) Format::add_pair(lines, q[r] + d, dots[r]);
}

// One group of a pair; `at` and `scales` are those of its first panel.
template <typename Format, size_t kRows, typename Ahead>
inline void add_pair_group(const GemmWeights &weights, const uint8_t *at, const uint8_t *scales,
                           const Rows<kRows> &rows, size_t first, size_t g, __m512 (*acc)[kPair]) {
  constexpr size_t kLines = Format::kUnrolledGroup / Format::kLineDepths;
  __m512i dots[kRows][kPair];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < kPair; ++p) {
      dots[r][p] = _mm512_set1_epi32(-Format::kOffset * rows.sums[r][g]);
    }
  }
  const size_t last = group_end(weights, first);
  if (last - first == Format::kUnrolledGroup) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kLines; ++i) {
      add_pair_line<Format, kRows, Ahead>(at + i * kLineBytes, weights.panel_bytes, rows.q,
                                          first + i * Format::kLineDepths, dots);
    }
  } else {
    for (size_t d = first; d < last; d += Format::kLineDepths, at += kLineBytes) {
      add_pair_line<Format, kRows, Ahead>(at, weights.panel_bytes, rows.q, d, dots);
    }
  }
  for (size_t p = 0; p < kPair; ++p) {
    Ahead::ask_scales(scales + p * weights.scale_panel_bytes, weights.scale_group_bytes);
    const __m512 weight_scale =
        Format::load_scales(weights, scales + p * weights.scale_panel_bytes);
    for (size_t r = 0; r < kRows; ++r) {
      acc[r][p] = add_group(dots[r][p], weight_scale, rows.scales[r][g], acc[r][p]);
    }
  }
}

// Several panels: of `weights`, values and scales are those of the first one, and panel_bytes and
// scale_panel_bytes lead from one to the next.
struct StreamTile {
  GemmWeights weights;
  size_t column;         // of the first panel
  size_t column_stride;  // from panel to panel
  __mmask16 last_columns;
};

template <typename Format, size_t kRows, size_t kPairs, typename Ahead>
[[gnu::noinline]] void multiply_streams(const StreamTile &tile, const TileRows &all_rows) {
  constexpr size_t kStreams = kPairs * kPair;
  const Rows<kRows> rows = first_rows<kRows>(all_rows);
  const GemmWeights weights = tile.weights;
  __m512 acc[kPairs][kRows][kPair];
  for (size_t pair = 0; pair < kPairs; ++pair) {
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t p = 0; p < kPair; ++p) acc[pair][r][p] = _mm512_setzero_ps();
    }
  }
  for (size_t first = 0, g = 0; first < weights.depth; first += weights.group, ++g) {
    const uint8_t *at = weights.values + first / Format::kLineDepths * kLineBytes;
    const uint8_t *group_scales = weights.scales + g * weights.scale_group_bytes;
#pragma GCC unroll 2
    for (size_t pair = 0; pair < kPairs; ++pair) {
      add_pair_group<Format, kRows, Ahead>(weights, at + pair * kPair * weights.panel_bytes,
                                           group_scales + pair * kPair * weights.scale_panel_bytes,
                                           rows, first, g, acc[pair]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    float *y = rows.y[r] + tile.column;
    for (size_t p = 0; p + 1 < kStreams; ++p, y += tile.column_stride) {
      _mm512_storeu_ps(y, acc[p / kPair][r][p % kPair]);
    }
    _mm512_mask_storeu_ps(y, tile.last_columns, acc[kPairs - 1][r][kPair - 1]);
  }
}

template <typename Format, typename Ahead>
void multiply_rows(const GemmWeights &weights, size_t panel, const TileRows &rows, size_t n_rows,
                   __mmask16 columns) {
  switch (n_rows) {
    case 1:
      return multiply_panel<Format, 1, 4, Ahead>(weights, panel, rows, columns);
    case 2:
      return multiply_panel<Format, 2, 4, Ahead>(weights, panel, rows, columns);
    case 3:
      return multiply_panel<Format, 3, 2, Ahead>(weights, panel, rows, columns);
    case 4:
      return multiply_panel<Format, 4, 2, Ahead>(weights, panel, rows, columns);
    case 5:
      return multiply_panel<Format, 5, 2, Ahead>(weights, panel, rows, columns);
    case 6:
      return multiply_panel<Format, 6, 2, Ahead>(weights, panel, rows, columns);
    case 7:
      return multiply_panel<Format, 7, 2, Ahead>(weights, panel, rows, columns);
    default:
      return multiply_panel<Format, 8, 2, Ahead>(weights, panel, rows, columns);
  }
}

inline __mmask16 stored_columns(const IntGemmArgs &args, size_t panel) {
  const size_t left = args.n_columns - panel * kLanes;
  return left >= kLanes ? static_cast<__mmask16>(0xFFFF)
                        : static_cast<__mmask16>((1u << left) - 1u);
}

// Panels outside, tiles of rows inside.
template <typename Format, typename Ahead>
void multiply(const IntGemmArgs &args, size_t first_panel) {
  const size_t n_tiles = (args.n_rows + kMaxRows - 1) / kMaxRows;
  for (size_t panel = first_panel; panel < args.first_panel + args.n_panels; ++panel) {
    const __mmask16 columns = stored_columns(args, panel);
    size_t first = 0;
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      const size_t n = rows_of_tile(args.n_rows, first, tile, n_tiles);
      TileRows rows = {};
      find_rows(args, first, n, &rows);
      if (tile == 0) {
        multiply_rows<Format, Ahead>(args.weights, panel, rows, n, columns);
      } else {
        multiply_rows<Format, NoPrefetch>(args.weights, panel, rows, n, columns);
      }
      first += n;
    }
  }
}

// Panels that are far apart, so that each stream goes on from one panel to the next: with panels of
// 6 KB and one row, 41 GB/s on two threads instead of 26. Of `n_streams` times n_steps panels those
// of one step.
inline StreamTile find_streams(const IntGemmArgs &args, size_t n_streams, size_t n_steps,
                               size_t step) {
  const size_t panel = args.first_panel + step;
  StreamTile tile = {args.weights, panel * kLanes, n_steps * kLanes, 0};
  tile.weights.values += panel * args.weights.panel_bytes;
  tile.weights.scales += panel * args.weights.scale_panel_bytes;
  tile.weights.panel_bytes *= n_steps;
  tile.weights.scale_panel_bytes *= n_steps;
  tile.last_columns = stored_columns(args, panel + (n_streams - 1) * n_steps);
  return tile;
}

// One tile of rows. What is left of the panels is done one by one.
template <typename Format, size_t kRows, size_t kPairs, typename Ahead>
void multiply_apart(const IntGemmArgs &args) {
  constexpr size_t kStreams = kPairs * kPair;
  TileRows rows = {};
  find_rows(args, 0, kRows, &rows);
  const size_t n_steps = args.n_panels / kStreams;
  for (size_t step = 0; step < n_steps; ++step) {
    const StreamTile tile = find_streams(args, kStreams, n_steps, step);
    multiply_streams<Format, kRows, kPairs, Ahead>(tile, rows);
  }
  multiply<Format, PrefetchNear>(args, args.first_panel + n_steps * kStreams);
}

template <typename Format, typename Ahead>
void multiply_pair(const StreamTile &tile, const TileRows &rows, size_t n_rows) {
  switch (n_rows) {
    case 4:
      return multiply_streams<Format, 4, 1, Ahead>(tile, rows);
    case 5:
      return multiply_streams<Format, 5, 1, Ahead>(tile, rows);
    case 6:
      return multiply_streams<Format, 6, 1, Ahead>(tile, rows);
    case 7:
      return multiply_streams<Format, 7, 1, Ahead>(tile, rows);
    default:
      return multiply_streams<Format, 8, 1, Ahead>(tile, rows);
  }
}

// Five rows and more, so that no tile has less than four: pairs of panels outside, tiles inside.
template <typename Format>
void multiply_pairs(const IntGemmArgs &args) {
  const size_t n_tiles = (args.n_rows + kMaxRows - 1) / kMaxRows;
  const size_t n_steps = args.n_panels / kPair;
  for (size_t step = 0; step < n_steps; ++step) {
    const StreamTile streams = find_streams(args, kPair, n_steps, step);
    size_t first = 0;
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      const size_t n = rows_of_tile(args.n_rows, first, tile, n_tiles);
      TileRows rows = {};
      find_rows(args, first, n, &rows);
      if (tile == 0) {
        multiply_pair<Format, PrefetchPair>(streams, rows, n);
      } else {
        multiply_pair<Format, NoPrefetch>(streams, rows, n);
      }
      first += n;
    }
  }
  multiply<Format, PrefetchNear>(args, args.first_panel + n_steps * kPair);
}

template <typename Format, size_t kRows>
void multiply_four(const IntGemmArgs &args) {
  multiply_apart<Format, kRows, 2, NoPrefetch>(args);
}
template <typename Format, size_t kRows>
void multiply_four_ahead(const IntGemmArgs &args) {
  multiply_apart<Format, kRows, 2, PrefetchNear>(args);
}
template <typename Format, size_t kRows>
void multiply_two(const IntGemmArgs &args) {
  multiply_apart<Format, kRows, 1, PrefetchPair>(args);
}
template <typename Format>
void multiply_one(const IntGemmArgs &args) {
  multiply<Format, PrefetchFar>(args, args.first_panel);
}

using Multiply = void (*)(const IntGemmArgs &);

// Indexed by the number of rows, less one; the last is for all more.
template <typename Format>
constexpr Multiply kNibbleStreams[] = {
    multiply_four<Format, 1>, multiply_four<Format, 2>, multiply_one<Format>,
    multiply_two<Format, 4>,  multiply_two<Format, 5>,  multiply_two<Format, 6>,
    multiply_one<Format>,
};
template <typename Format>
constexpr Multiply kStreamsAhead[] = {
    multiply_four_ahead<Format, 1>, multiply_four_ahead<Format, 2>, multiply_four_ahead<Format, 3>,
    multiply_four_ahead<Format, 4>, multiply_pairs<Format>,
};

template <size_t kMost>
void multiply_by_rows(const IntGemmArgs &args, const Multiply (&functions)[kMost]) {
  if (args.n_rows == 0) return;
  functions[(args.n_rows < kMost ? args.n_rows : kMost) - 1](args);
}

}  // namespace
}  // namespace colibri::cpu

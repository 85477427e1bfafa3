// SPDX-License-Identifier: Apache-2.0
//
// INT8 and INT4 weights times int8 rows, several rows at once: AVX-512 VNNI.
//
// Contract: IntGemmFn in cpu/kernels.h. Definition: int_gemm_ref.cpp, equal bit for bit.
//
// Tile    up to 8 rows by one panel; a panel is one stream of 64-byte lines, read once per tile.
// Signs   VPDPBUSD takes unsigned times signed. Weights are read as stored; the offset is taken out
//         by starting the accumulator of a group at -offset * sum of its activations.
// Chains  the groups of a row are independent until their dots meet the float chain, so the
//         processor overlaps them.
// Tails   missing columns are computed in the padded panel and not stored; a missing depth is a
//         zero activation.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kLineBytes = 64;
constexpr size_t kMaxRows = 8;
// Bytes between the line in use and the line that is asked for.
constexpr size_t kPrefetchBytes = 4096;

inline __m512i four_depths(const int8_t *q) {
  int32_t word;
  __builtin_memcpy(&word, q, sizeof word);
  return _mm512_set1_epi32(word);
}

// 4 depths in a line.
struct Int8Format {
  static constexpr size_t kLineDepths = 4;
  static constexpr int32_t kOffset = 128;
  template <size_t kRows>
  static inline void add_line(__m512i line, const int8_t *const *q, size_t d, __m512i *dots) {
    for (size_t r = 0; r < kRows; ++r) {
      dots[r] = _mm512_dpbusd_epi32(dots[r], line, four_depths(q[r] + d));
    }
  }
};

// 8 depths in a line: 0..3 in the low nibbles, 4..7 in the high ones. There is no 8-bit shift, so
// 16-bit lanes are shifted and the bits that cross from the neighbour byte are masked away.
struct Int4Format {
  static constexpr size_t kLineDepths = 8;
  static constexpr int32_t kOffset = 8;
  template <size_t kRows>
  static inline void add_line(__m512i line, const int8_t *const *q, size_t d, __m512i *dots) {
    const __m512i mask = _mm512_set1_epi8(0x0F);
    const __m512i low = _mm512_and_si512(line, mask);
    const __m512i high = _mm512_and_si512(_mm512_srli_epi16(line, 4), mask);
    for (size_t r = 0; r < kRows; ++r) {
      dots[r] = _mm512_dpbusd_epi32(dots[r], low, four_depths(q[r] + d));
      dots[r] = _mm512_dpbusd_epi32(dots[r], high, four_depths(q[r] + d + 4));
    }
  }
};

// Rows of one tile.
struct TileRows {
  const int8_t *q[kMaxRows];
  const float *scales[kMaxRows];
  const int32_t *sums[kMaxRows];
  float *y[kMaxRows];
};

inline __m512 load_scales(bool has_bf16, const uint8_t *at) {
  if (!has_bf16) return _mm512_loadu_ps(at);
  const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

template <typename Format, size_t kRows>
inline void multiply_tile(const GemmWeights &weights, size_t panel, const TileRows &rows,
                          __mmask16 columns) {
  const uint8_t *line = weights.values + panel * weights.panel_bytes;
  const uint8_t *weight_scales = weights.scales + panel * weights.scale_panel_bytes;
  __m512 acc[kRows];
  for (size_t r = 0; r < kRows; ++r) acc[r] = _mm512_setzero_ps();
  for (size_t first = 0, g = 0; first < weights.depth; first += weights.group, ++g) {
    const size_t left = weights.depth - first;
    const size_t last = first + (left < weights.group ? left : weights.group);
    __m512i dots[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      dots[r] = _mm512_set1_epi32(-Format::kOffset * rows.sums[r][g]);
    }
    for (size_t d = first; d < last; d += Format::kLineDepths, line += kLineBytes) {
      _mm_prefetch(reinterpret_cast<const char *>(line + kPrefetchBytes), _MM_HINT_T0);
      Format::template add_line<kRows>(_mm512_loadu_si512(line), rows.q, d, dots);
    }
    const __m512 weight_scale =
        load_scales(weights.has_bf16_scales, weight_scales + g * weights.scale_group_bytes);
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 scale = _mm512_mul_ps(weight_scale, _mm512_set1_ps(rows.scales[r][g]));
      acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[r]), scale, acc[r]);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    _mm512_mask_storeu_ps(rows.y[r] + panel * kLanes, columns, acc[r]);
  }
}

template <typename Format>
void multiply_rows(const GemmWeights &weights, size_t panel, const TileRows &rows, size_t n_rows,
                   __mmask16 columns) {
  switch (n_rows) {
    case 1:
      return multiply_tile<Format, 1>(weights, panel, rows, columns);
    case 2:
      return multiply_tile<Format, 2>(weights, panel, rows, columns);
    case 3:
      return multiply_tile<Format, 3>(weights, panel, rows, columns);
    case 4:
      return multiply_tile<Format, 4>(weights, panel, rows, columns);
    case 5:
      return multiply_tile<Format, 5>(weights, panel, rows, columns);
    case 6:
      return multiply_tile<Format, 6>(weights, panel, rows, columns);
    case 7:
      return multiply_tile<Format, 7>(weights, panel, rows, columns);
    default:
      return multiply_tile<Format, 8>(weights, panel, rows, columns);
  }
}

inline void find_rows(const IntGemmArgs &args, size_t first, size_t n, TileRows *rows) {
  for (size_t i = 0; i < n; ++i) {
    const size_t r = first + i;
    const size_t in = args.x_rows != nullptr ? static_cast<size_t>(args.x_rows[r]) : r;
    const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
    rows->q[i] = args.q + in * args.q_stride;
    rows->scales[i] = args.scales + in * args.group_stride;
    rows->sums[i] = args.sums + in * args.group_stride;
    rows->y[i] = args.y + out * args.y_stride;
  }
}

// Row tiles inside, panels outside: from the second tile on a panel comes from the cache.
template <typename Format>
void multiply(const IntGemmArgs &args) {
  for (size_t panel = args.first_panel; panel < args.first_panel + args.n_panels; ++panel) {
    const size_t n_columns = args.n_columns - panel * kLanes;
    const __mmask16 columns = n_columns >= kLanes ? static_cast<__mmask16>(0xFFFF)
                                                  : static_cast<__mmask16>((1u << n_columns) - 1u);
    for (size_t first = 0; first < args.n_rows; first += kMaxRows) {
      const size_t left = args.n_rows - first;
      const size_t n = left < kMaxRows ? left : kMaxRows;
      TileRows rows = {};
      find_rows(args, first, n, &rows);
      multiply_rows<Format>(args.weights, panel, rows, n, columns);
    }
  }
}

}  // namespace

void int8_gemm_avx512(const IntGemmArgs &args) noexcept {
  multiply<Int8Format>(args);
}
void int4_gemm_avx512(const IntGemmArgs &args) noexcept {
  multiply<Int4Format>(args);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// INT8, INT4 and MXFP4 weights times int8 rows, several rows at once: AVX2.
//
// Contract: IntGemmFn in cpu/kernels.h. Definition: int_gemm_ref.cpp, equal bit for bit.
//
// Tile   up to 4 rows by one panel, the panel in two halves of 8 columns; a 64-byte line is two
//        registers. For processors that follow many read streams (kernel_registry.cpp) one or two
//        rows take four panels.
// Signs  weights are read as stored; the offset is taken out by starting a group at -offset * sum
//        of its activations.
// Tails  missing columns are computed in the padded panel and not stored; a missing depth is a zero
//        activation.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/int_rows_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kHalfLanes = 8;
constexpr size_t kLineBytes = 64;
constexpr size_t kHalfBytes = 32;
constexpr size_t kMaxRows = 4;

inline __m256i four_depths(const int8_t *q) {
  int32_t word;
  __builtin_memcpy(&word, q, sizeof word);
  return _mm256_set1_epi32(word);
}

inline __m256i load_half(const uint8_t *at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
}

// How a stream is read ahead by software, and into which cache: locality as the compiler counts it.
constexpr int kFirstLevel = 3;
constexpr int kSecondLevel = 2;
struct NoPrefetch {
  static inline void ask(const uint8_t *) {}
};
template <int kLocality, size_t kBytes>
struct Prefetch {
  static inline void ask(const uint8_t *line) { __builtin_prefetch(line + kBytes, 0, kLocality); }
};
// One or two rows: straight to the first level. More rows: into the second, since what is far ahead
// must not push the rows out of the first (Zen 4, 8 rows: 101 GMAC/s instead of 97).
using PrefetchNear = Prefetch<kFirstLevel, 4096>;
using PrefetchFar = Prefetch<kSecondLevel, 16384>;

struct FloatScales {
  static inline __m256 load_scales(const GemmWeights &weights, const uint8_t *at, size_t half) {
    if (!weights.has_bf16_scales) return _mm256_castsi256_ps(load_half(at + half * kHalfBytes));
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at + half * 16));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
};

// A pair of products would not fit 16 bits, so even and odd bytes are widened and multiplied with
// VPMADDWD.
struct Int8Format : FloatScales {
  static constexpr size_t kLineDepths = 4;
  static constexpr int32_t kOffset = 128;

  // Adds the lines of depths first .. last - 1 to the dots of both halves.
  template <size_t kRows, typename Ahead>
  static inline void add_lines(const uint8_t *line, const int8_t *const *q, size_t first,
                               size_t last, __m256i (*dots)[kRows]) {
    const __m256i low_bytes = _mm256_set1_epi16(0x00FF);
    for (size_t d = first; d < last; d += kLineDepths, line += kLineBytes) {
      Ahead::ask(line);
      const __m256i a = load_half(line);
      const __m256i b = load_half(line + kHalfBytes);
      const __m256i even[2] = {_mm256_and_si256(a, low_bytes), _mm256_and_si256(b, low_bytes)};
      const __m256i odd[2] = {_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)};
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i bytes = four_depths(q[r] + d);
        const __m256i q_odd = _mm256_srai_epi16(bytes, 8);
        const __m256i q_even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        for (size_t half = 0; half < 2; ++half) {
          dots[half][r] = _mm256_add_epi32(dots[half][r], _mm256_madd_epi16(even[half], q_even));
          dots[half][r] = _mm256_add_epi32(dots[half][r], _mm256_madd_epi16(odd[half], q_odd));
        }
      }
    }
  }
};

// What VPMADDUBSW takes for the nibbles of INT4. A pair of products is at most 2 * 15 * 127 = 3810,
// so the eight pairs of four lines fit 16 bits and are widened once.
struct Int4Codes : FloatScales {
  static constexpr int32_t kOffset = 8;
  static constexpr size_t kChunkLines = 4;
  static inline __m256i decode(__m256i nibbles) { return nibbles; }
};

// And for those of MXFP4: 12 plus twice the value of the code. A pair is at most 2 * 24 * 127 =
// 6096, so only the four pairs of two lines fit.
struct MxFp4Codes {
  static constexpr int32_t kOffset = 12;
  static constexpr size_t kChunkLines = 2;
  static inline __m256i decode(__m256i nibbles) {
    const __m256i table = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm256_shuffle_epi8(table, nibbles);
  }
  // Half the scale, since weights are doubled. The bit below the exponent makes 2^-127 of byte 0
  // and NaN of byte 255.
  static inline __m256 load_scales(const GemmWeights &, const uint8_t *at, size_t half) {
    int64_t word;
    __builtin_memcpy(&word, at + half * kHalfLanes, sizeof word);
    const __m256i exponents = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(word)), 23);
    const __m256i is_least = _mm256_cmpeq_epi32(exponents, _mm256_setzero_si256());
    const __m256i is_nan = _mm256_cmpeq_epi32(exponents, _mm256_set1_epi32(0x7F800000));
    const __m256i bit =
        _mm256_and_si256(_mm256_or_si256(is_least, is_nan), _mm256_set1_epi32(0x400000));
    return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(exponents, bit)),
                         _mm256_set1_ps(0.5f));
  }
};

// VPMADDUBSW: unsigned bytes that stand for nibbles times signed bytes.
template <typename Codes>
struct NibbleFormat : Codes {
  static constexpr size_t kLineDepths = 8;
  static constexpr size_t kChunkLines = Codes::kChunkLines;
  static constexpr size_t kChunkDepths = kChunkLines * kLineDepths;

  // Some halves of a line at once: both share the activations that are spread over the lanes.
  template <size_t kRows, size_t kHalves>
  static inline void add_line(const uint8_t *at, const int8_t *const *q, size_t d,
                              __m256i (*pairs)[kRows]) {
    const __m256i mask = _mm256_set1_epi8(0x0F);
    __m256i low[kHalves], high[kHalves];
    for (size_t half = 0; half < kHalves; ++half) {
      const __m256i bytes = load_half(at + half * kHalfBytes);
      low[half] = Codes::decode(_mm256_and_si256(bytes, mask));
      high[half] = Codes::decode(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask));
    }
    for (size_t r = 0; r < kRows; ++r) {
      const __m256i first = four_depths(q[r] + d);
      const __m256i second = four_depths(q[r] + d + 4);
      for (size_t half = 0; half < kHalves; ++half) {
        const __m256i a = _mm256_maddubs_epi16(low[half], first);
        const __m256i b = _mm256_maddubs_epi16(high[half], second);
        pairs[half][r] = _mm256_add_epi16(pairs[half][r], _mm256_add_epi16(a, b));
      }
    }
  }

  // At most kChunkDepths.
  template <size_t kRows, size_t kHalves>
  static inline void add_chunk(const uint8_t *line, const int8_t *const *q, size_t first,
                               size_t last, __m256i (*dots)[kRows]) {
    __m256i pairs[kHalves][kRows];
    for (size_t half = 0; half < kHalves; ++half) {
      for (size_t r = 0; r < kRows; ++r) pairs[half][r] = _mm256_setzero_si256();
    }
    for (size_t d = first; d < last; d += kLineDepths, line += kLineBytes) {
      add_line<kRows, kHalves>(line, q, d, pairs);
    }
    const __m256i ones = _mm256_set1_epi16(1);
    for (size_t half = 0; half < kHalves; ++half) {
      for (size_t r = 0; r < kRows; ++r) {
        dots[half][r] = _mm256_add_epi32(dots[half][r], _mm256_madd_epi16(pairs[half][r], ones));
      }
    }
  }

  // More than two rows by two halves do not fit the registers. Loops are left to the compiler: with
  // four lines unrolled by hand it spills, and four rows lose a quarter.
  template <size_t kRows, typename Ahead>
  static inline void add_lines(const uint8_t *line, const int8_t *const *q, size_t first,
                               size_t last, __m256i (*dots)[kRows]) {
    for (size_t d = first; d < last; d += kChunkDepths, line += kChunkLines * kLineBytes) {
      const size_t end = last - d < kChunkDepths ? last : d + kChunkDepths;
      for (size_t i = 0; i < kChunkLines; ++i) Ahead::ask(line + i * kLineBytes);
      if constexpr (kRows <= 2) {
        add_chunk<kRows, 2>(line, q, d, end, dots);
      } else {
        add_chunk<kRows, 1>(line, q, d, end, dots);
        add_chunk<kRows, 1>(line + kHalfBytes, q, d, end, dots + 1);
      }
    }
  }
};

using Int4Format = NibbleFormat<Int4Codes>;
using MxFp4Format = NibbleFormat<MxFp4Codes>;

using TileRows = Rows<kMaxRows>;

inline void store_columns(float *at, size_t n, __m256 value) {
  if (n >= kHalfLanes) {
    _mm256_storeu_ps(at, value);
    return;
  }
  const __m256i lanes = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                                           _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  _mm256_maskstore_ps(at, lanes, value);
}

// One group of one panel.
template <typename Format, size_t kRows, typename Ahead>
inline void add_group(const GemmWeights &weights, size_t panel, const TileRows &rows, size_t first,
                      size_t g, __m256 (*acc)[kRows]) {
  const size_t last = group_end(weights, first);
  const uint8_t *line =
      weights.values + panel * weights.panel_bytes + first / Format::kLineDepths * kLineBytes;
  __m256i dots[2][kRows];
  for (size_t r = 0; r < kRows; ++r) {
    dots[0][r] = dots[1][r] = _mm256_set1_epi32(-Format::kOffset * rows.sums[r][g]);
  }
  Format::template add_lines<kRows, Ahead>(line, rows.q, first, last, dots);
  const uint8_t *scales =
      weights.scales + panel * weights.scale_panel_bytes + g * weights.scale_group_bytes;
  for (size_t half = 0; half < 2; ++half) {
    const __m256 weight_scale = Format::load_scales(weights, scales, half);
    for (size_t r = 0; r < kRows; ++r) {
      const __m256 scale = _mm256_mul_ps(weight_scale, _mm256_set1_ps(rows.scales[r][g]));
      acc[half][r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[half][r]), scale, acc[half][r]);
    }
  }
}

// kPanels panels, `stride` apart. n_columns are left from the first column of the first one on.
template <typename Format, size_t kRows, size_t kPanels, typename Ahead>
inline void multiply_panels(const GemmWeights &weights, size_t panel, size_t stride,
                            const TileRows &rows, size_t n_columns) {
  __m256 acc[kPanels][2][kRows];
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t r = 0; r < kRows; ++r) acc[p][0][r] = acc[p][1][r] = _mm256_setzero_ps();
  }
  for (size_t first = 0, g = 0; first < weights.depth; first += weights.group, ++g) {
    for (size_t p = 0; p < kPanels; ++p) {
      add_group<Format, kRows, Ahead>(weights, panel + p * stride, rows, first, g, acc[p]);
    }
  }
  for (size_t p = 0; p < kPanels; ++p) {
    const size_t skipped = p * stride * kLanes;
    for (size_t r = 0; r < kRows; ++r) {
      float *y = rows.y[r] + panel * kLanes + skipped;
      const size_t left = n_columns - skipped;
      store_columns(y, left, acc[p][0][r]);
      if (left > kHalfLanes) store_columns(y + kHalfLanes, left - kHalfLanes, acc[p][1][r]);
    }
  }
}

template <typename Format, size_t kRows, typename Ahead>
inline void multiply_tile(const GemmWeights &weights, size_t panel, const TileRows &rows,
                          size_t n_columns) {
  multiply_panels<Format, kRows, 1, Ahead>(weights, panel, 0, rows, n_columns);
}

template <typename Format, typename Few, typename Many>
void multiply_rows(const GemmWeights &weights, size_t panel, const TileRows &rows, size_t n_rows,
                   size_t n_columns) {
  switch (n_rows) {
    case 1:
      return multiply_tile<Format, 1, Few>(weights, panel, rows, n_columns);
    case 2:
      return multiply_tile<Format, 2, Few>(weights, panel, rows, n_columns);
    case 3:
      return multiply_tile<Format, 3, Many>(weights, panel, rows, n_columns);
    default:
      return multiply_tile<Format, 4, Many>(weights, panel, rows, n_columns);
  }
}

// Row tiles inside, panels outside: from the second tile on a panel comes from the cache. Rows are
// split evenly, so that no tile is left with one row.
template <typename Format>
void multiply(const IntGemmArgs &args, size_t first_panel) {
  const size_t n_tiles = (args.n_rows + kMaxRows - 1) / kMaxRows;
  for (size_t panel = first_panel; panel < args.first_panel + args.n_panels; ++panel) {
    const size_t n_columns = args.n_columns - panel * kLanes;
    size_t first = 0;
    for (size_t tile = 0; tile < n_tiles; ++tile) {
      const size_t n = rows_of_tile(args.n_rows, first, tile, n_tiles);
      TileRows rows = {};
      find_rows(args, first, n, &rows);
      if (tile == 0) {
        multiply_rows<Format, PrefetchNear, PrefetchFar>(args.weights, panel, rows, n, n_columns);
      } else {
        multiply_rows<Format, NoPrefetch, NoPrefetch>(args.weights, panel, rows, n, n_columns);
      }
      first += n;
    }
  }
}

// One or two rows: four panels that are far apart, so that each stream goes on from one panel to
// the next; what is left one by one.
template <typename Format, typename Ahead>
void multiply_for_streams(const IntGemmArgs &args) {
  constexpr size_t kStreams = 4;
  if (args.n_rows == 0 || args.n_rows > 2) return multiply<Format>(args, args.first_panel);
  TileRows rows = {};
  find_rows(args, 0, args.n_rows, &rows);
  const size_t stride = args.n_panels / kStreams;
  for (size_t panel = args.first_panel; panel < args.first_panel + stride; ++panel) {
    const size_t n_columns = args.n_columns - panel * kLanes;
    if (args.n_rows == 1) {
      multiply_panels<Format, 1, kStreams, Ahead>(args.weights, panel, stride, rows, n_columns);
    } else {
      multiply_panels<Format, 2, kStreams, Ahead>(args.weights, panel, stride, rows, n_columns);
    }
  }
  multiply<Format>(args, args.first_panel + stride * kStreams);
}

}  // namespace

void int8_gemm_avx2(const IntGemmArgs &args) noexcept {
  multiply<Int8Format>(args, args.first_panel);
}
void int4_gemm_avx2(const IntGemmArgs &args) noexcept {
  multiply<Int4Format>(args, args.first_panel);
}
void int8_gemm_avx2_streams(const IntGemmArgs &args) noexcept {
  multiply_for_streams<Int8Format, NoPrefetch>(args);
}
void int4_gemm_avx2_streams(const IntGemmArgs &args) noexcept {
  multiply_for_streams<Int4Format, NoPrefetch>(args);
}
void int8_gemm_avx2_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_for_streams<Int8Format, PrefetchNear>(args);
}
void int4_gemm_avx2_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_for_streams<Int4Format, PrefetchNear>(args);
}
void mxfp4_gemm_avx2(const IntGemmArgs &args) noexcept {
  multiply<MxFp4Format>(args, args.first_panel);
}
void mxfp4_gemm_avx2_streams(const IntGemmArgs &args) noexcept {
  multiply_for_streams<MxFp4Format, NoPrefetch>(args);
}
void mxfp4_gemm_avx2_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_for_streams<MxFp4Format, PrefetchNear>(args);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Weights of any format times float rows: AVX-512.
//
// Contract: FloatGemmFn in cpu/kernels.h. Definition: float_gemm_ref.cpp, equal bit for bit.
//
// Tile   rows by panels: 1 x 4, 2 x 4, 4 x 4, 8 x 2. A weight is decoded once per tile. One row by
//        eight panels has twice the chains, but reading eight streams is slower (Zen 4: 25 GB/s
//        instead of 29).
// Steps  a format gives its weights in steps of kStep depths: one for plain formats and FP8, a line
//        for INT8, INT4 and MXFP4.
// Tails  a missing row repeats the last one of the tile, which stores the same value twice; missing
//        columns are computed in the padded panel and not stored.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kMaxRows = 8;

// A format: what is loaded for one panel and step, and how the weights of its depths, taken in
// order, come out of it.
struct F32Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = false;
  using Step = __m512;
  static inline Step load(const uint8_t *at) { return _mm512_loadu_ps(at); }
  static inline __m512 take(Step &step, size_t) { return step; }
};

struct Bf16Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 32;
  static constexpr bool kHasScales = false;
  using Step = __m512;
  static inline Step load(const uint8_t *at) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
  static inline __m512 take(Step &step, size_t) { return step; }
};

struct F16Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 32;
  static constexpr bool kHasScales = false;
  using Step = __m512;
  static inline Step load(const uint8_t *at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(at)));
  }
  static inline __m512 take(Step &step, size_t) { return step; }
};

// Scales of one panel and group.
struct FloatScales {
  static inline __m512 load_scales(const GemmWeights &weights, const uint8_t *at) {
    return weights.has_bf16_scales ? Bf16Format::load(at) : _mm512_loadu_ps(at);
  }
};

// E4M3 moved into the fields of binary16 is the value times 2^-8, subnormals included; only NaN
// needs a hand.
struct Fp8Format : FloatScales {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 16;
  static constexpr bool kHasScales = true;
  using Step = __m512;
  static inline Step load(const uint8_t *at) {
    const __m256i codes =
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i *>(at)));
    const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7F));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(codes, magnitude), 8);
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F));
    const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign),
                                         _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7E00)));
    return _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
  }
  static inline __m512 take(Step &step, size_t) { return step; }
};

struct Int8Format : FloatScales {
  static constexpr size_t kStep = 4;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = __m512i;
  static inline Step load(const uint8_t *at) { return _mm512_loadu_si512(at); }
  static inline __m512 take(Step &step, size_t) {
    const __m512i stored = _mm512_and_si512(step, _mm512_set1_epi32(255));
    step = _mm512_ror_epi32(step, 8);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(stored, _mm512_set1_epi32(128)));
  }
};

// The table look-up reads the low four bits of each lane. Depths 0..3 lie at bits 0, 8, 16, 24,
// depths 4..7 at 4, 12, 20, 28.
struct Int4Format : FloatScales {
  static constexpr size_t kStep = 8;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = __m512i;
  static inline Step load(const uint8_t *at) { return _mm512_loadu_si512(at); }
  static inline __m512 take(Step &step, size_t depth) {
    const __m512 table = _mm512_set_ps(7, 6, 5, 4, 3, 2, 1, 0, -1, -2, -3, -4, -5, -6, -7, -8);
    const __m512 weight = _mm512_permutexvar_ps(step, table);
    step = depth == 3 ? _mm512_ror_epi32(step, 12) : _mm512_ror_epi32(step, 8);
    return weight;
  }
};

// As INT4, with the values of the codes in the table.
struct MxFp4Format {
  static constexpr size_t kStep = 8;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = __m512i;
  static inline Step load(const uint8_t *at) { return _mm512_loadu_si512(at); }
  static inline __m512 take(Step &step, size_t depth) {
    const __m512 table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                        -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    const __m512 weight = _mm512_permutexvar_ps(step, table);
    step = depth == 3 ? _mm512_ror_epi32(step, 12) : _mm512_ror_epi32(step, 8);
    return weight;
  }
  // The bit below the exponent makes 2^-127 of byte 0 and NaN of byte 255.
  static inline __m512 load_scales(const GemmWeights &, const uint8_t *at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
    const __m512i exponents = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23);
    const __mmask16 is_least = _mm512_testn_epi32_mask(exponents, exponents);
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(exponents, _mm512_set1_epi32(0x7F800000));
    return _mm512_castsi512_ps(_mm512_mask_or_epi32(exponents,
                                                    static_cast<__mmask16>(is_least | is_nan),
                                                    exponents, _mm512_set1_epi32(0x400000)));
  }
};

// Tiles of this many rows and more ask for what is far ahead, into the second level; with fewer
// rows the streams of several panels keep the processor's own prefetching busy.
constexpr size_t kPrefetchFrom = 8;
constexpr size_t kPrefetchBytes = 8192;

struct TileRows {
  const float *x[kMaxRows];
  float *y[kMaxRows];
};

template <typename Format, size_t kRows, size_t kPanels>
inline void add_depth(typename Format::Step *steps, size_t depth_in_step, const __m512 *scales,
                      const float *const *x, size_t d, __m512 (*acc)[kPanels]) {
  __m512 weights[kPanels];
  for (size_t p = 0; p < kPanels; ++p) {
    weights[p] = Format::take(steps[p], depth_in_step);
    if (Format::kHasScales) weights[p] = _mm512_mul_ps(weights[p], scales[p]);
  }
  for (size_t r = 0; r < kRows; ++r) {
    const __m512 value = _mm512_set1_ps(x[r][d]);
    for (size_t p = 0; p < kPanels; ++p) {
      acc[r][p] = _mm512_fmadd_ps(weights[p], value, acc[r][p]);
    }
  }
}

template <size_t kRows, size_t kPanels>
inline void store_tile(const TileRows &rows, size_t panel, size_t n_columns,
                       const __m512 (*acc)[kPanels]) {
  for (size_t p = 0; p < kPanels; ++p) {
    const size_t column = (panel + p) * kLanes;
    const size_t left = n_columns - column;
    const __mmask16 lanes =
        left >= kLanes ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << left) - 1u);
    for (size_t r = 0; r < kRows; ++r) {
      _mm512_mask_storeu_ps(rows.y[r] + column, lanes, acc[r][p]);
    }
  }
}

template <typename Format>
inline __m512 load_scales(const GemmWeights &weights, size_t panel, size_t group) {
  if constexpr (Format::kHasScales) {
    return Format::load_scales(weights, weights.scales + panel * weights.scale_panel_bytes +
                                            group * weights.scale_group_bytes);
  } else {
    return _mm512_setzero_ps();
  }
}

inline void ask_far(const uint8_t *at) {
  _mm_prefetch(reinterpret_cast<const char *>(at + kPrefetchBytes), _MM_HINT_T1);
}

template <typename Format, size_t kRows, size_t kPanels>
void multiply_tile(const FloatGemmArgs &args, size_t panel, const TileRows &rows) {
  const GemmWeights &weights = args.weights;
  const uint8_t *at[kPanels];
  for (size_t p = 0; p < kPanels; ++p) at[p] = weights.values + (panel + p) * weights.panel_bytes;
  __m512 acc[kRows][kPanels];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < kPanels; ++p) acc[r][p] = _mm512_setzero_ps();
  }
  const size_t group = Format::kHasScales ? weights.group : weights.depth;
  for (size_t first = 0, g = 0; first < weights.depth; first += group, ++g) {
    const size_t left = weights.depth - first;
    const size_t last = first + (left < group ? left : group);
    __m512 scales[kPanels];
    for (size_t p = 0; p < kPanels; ++p) {
      scales[p] = load_scales<Format>(weights, panel + p, g);
    }
    for (size_t d = first; d < last; d += Format::kStep) {
      typename Format::Step steps[kPanels];
      for (size_t p = 0; p < kPanels; ++p) {
        if (kPrefetchFrom <= kRows) ask_far(at[p]);
        steps[p] = Format::load(at[p]);
        at[p] += Format::kStepBytes;
      }
      if (last - d >= Format::kStep) {
        for (size_t j = 0; j < Format::kStep; ++j) {
          add_depth<Format, kRows, kPanels>(steps, j, scales, rows.x, d + j, acc);
        }
      } else {
        for (size_t j = 0; j < last - d; ++j) {
          add_depth<Format, kRows, kPanels>(steps, j, scales, rows.x, d + j, acc);
        }
      }
    }
  }
  store_tile<kRows, kPanels>(rows, panel, args.n_columns, acc);
}

// All panels for one tile of rows. Two sizes of tile, then panels one by one.
template <typename Format, size_t kRows, size_t kPanels, size_t kFewPanels>
void multiply_panels(const FloatGemmArgs &args, size_t panel, size_t end, const TileRows &rows) {
  for (; end - panel >= kPanels; panel += kPanels) {
    multiply_tile<Format, kRows, kPanels>(args, panel, rows);
  }
  for (; end - panel >= kFewPanels; panel += kFewPanels) {
    multiply_tile<Format, kRows, kFewPanels>(args, panel, rows);
  }
  for (; panel < end; ++panel) multiply_tile<Format, kRows, 1>(args, panel, rows);
}

inline void find_rows(const FloatGemmArgs &args, size_t first, size_t n, TileRows *rows) {
  for (size_t i = 0; i < kMaxRows; ++i) {
    const size_t r = first + (i < n ? i : n - 1);
    const size_t in = args.x_rows != nullptr ? static_cast<size_t>(args.x_rows[r]) : r;
    const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
    rows->x[i] = args.x + in * args.x_stride;
    rows->y[i] = args.y + out * args.y_stride;
  }
}

// Panels that all rows pass before the next ones are read, so that they stay in the cache.
constexpr size_t kBlockPanels = 8;

template <typename Format>
void multiply(const FloatGemmArgs &args) {
  const size_t end = args.first_panel + args.n_panels;
  for (size_t panel = args.first_panel; panel < end; panel += kBlockPanels) {
    const size_t block_end = end - panel < kBlockPanels ? end : panel + kBlockPanels;
    for (size_t first = 0; first < args.n_rows; first += kMaxRows) {
      const size_t left = args.n_rows - first;
      const size_t n = left < kMaxRows ? left : kMaxRows;
      TileRows rows;
      find_rows(args, first, n, &rows);
      if (n == 1) {
        multiply_panels<Format, 1, 4, 2>(args, panel, block_end, rows);
      } else if (n == 2) {
        multiply_panels<Format, 2, 4, 2>(args, panel, block_end, rows);
      } else if (n <= 4) {
        multiply_panels<Format, 4, 4, 2>(args, panel, block_end, rows);
      } else {
        multiply_panels<Format, 8, 2, 1>(args, panel, block_end, rows);
      }
    }
  }
}

}  // namespace

void float_gemm_f32_avx512(const FloatGemmArgs &args) noexcept {
  multiply<F32Format>(args);
}
void float_gemm_bf16_avx512(const FloatGemmArgs &args) noexcept {
  multiply<Bf16Format>(args);
}
void float_gemm_f16_avx512(const FloatGemmArgs &args) noexcept {
  multiply<F16Format>(args);
}
void float_gemm_fp8_avx512(const FloatGemmArgs &args) noexcept {
  multiply<Fp8Format>(args);
}
void float_gemm_int8_avx512(const FloatGemmArgs &args) noexcept {
  multiply<Int8Format>(args);
}
void float_gemm_int4_avx512(const FloatGemmArgs &args) noexcept {
  multiply<Int4Format>(args);
}
void float_gemm_mxfp4_avx512(const FloatGemmArgs &args) noexcept {
  multiply<MxFp4Format>(args);
}

}  // namespace colibri::cpu

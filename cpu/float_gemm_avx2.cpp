// SPDX-License-Identifier: Apache-2.0
//
// Weights of any format times float rows: AVX2.
//
// Contract: FloatGemmFn in cpu/kernels.h. Definition: float_gemm_ref.cpp, equal bit for bit.
//
// Tile   rows by panels: 1 x 4, 2 x 2, 4 x 1; a panel is two registers, so eight chains are in
//        flight. A weight is decoded once per tile.
// Steps  a format gives its weights in steps of kStep depths: one for plain formats and FP8, a line
//        for INT8, INT4 and MXFP4.
// Tails  a missing row repeats the last one of the tile, which stores the same value twice; missing
//        columns are computed in the padded panel and not stored.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/float_math_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kHalfLanes = 8;
constexpr size_t kMaxRows = 4;

struct FloatPair {
  __m256 half[2];
};
struct IntPair {
  __m256i half[2];
};

inline __m128i load_16_bytes(const uint8_t *at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
}
inline __m256i load_32_bytes(const uint8_t *at) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(at));
}

// A format: what is loaded for one panel and step, and the weights of half a panel at one depth of
// the step.
struct F32Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = false;
  using Step = FloatPair;
  static inline Step load(const uint8_t *at) {
    return {{_mm256_castsi256_ps(load_32_bytes(at)), _mm256_castsi256_ps(load_32_bytes(at + 32))}};
  }
  static inline __m256 take(const Step &step, size_t, size_t half) { return step.half[half]; }
};

struct Bf16Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 32;
  static constexpr bool kHasScales = false;
  using Step = FloatPair;
  static inline __m256 widen(__m128i halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
  static inline Step load(const uint8_t *at) {
    return {{widen(load_16_bytes(at)), widen(load_16_bytes(at + 16))}};
  }
  static inline __m256 take(const Step &step, size_t, size_t half) { return step.half[half]; }
};

struct F16Format {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 32;
  static constexpr bool kHasScales = false;
  using Step = FloatPair;
  static inline Step load(const uint8_t *at) {
    return {{_mm256_cvtph_ps(load_16_bytes(at)), _mm256_cvtph_ps(load_16_bytes(at + 16))}};
  }
  static inline __m256 take(const Step &step, size_t, size_t half) { return step.half[half]; }
};

// Scales of one panel and group.
struct FloatScales {
  static inline FloatPair load_scales(const GemmWeights &weights, const uint8_t *at) {
    return weights.has_bf16_scales ? Bf16Format::load(at) : F32Format::load(at);
  }
};

// E4M3 moved into the fields of binary16 is the value times 2^-8, subnormals included; only NaN
// needs a hand.
struct Fp8Format : FloatScales {
  static constexpr size_t kStep = 1;
  static constexpr size_t kStepBytes = 16;
  static constexpr bool kHasScales = true;
  using Step = FloatPair;
  static inline __m256 widen(__m128i halves) {
    return _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(256.0f));
  }
  static inline Step load(const uint8_t *at) {
    const __m256i codes = _mm256_cvtepu8_epi16(load_16_bytes(at));
    const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7F));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(codes, magnitude), 8);
    const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x7F));
    const __m256i half = _mm256_or_si256(_mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign),
                                         _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7E00)));
    return {{widen(_mm256_castsi256_si128(half)), widen(_mm256_extracti128_si256(half, 1))}};
  }
  static inline __m256 take(const Step &step, size_t, size_t half) { return step.half[half]; }
};

// The field at `shift` of every lane, less the offset.
inline __m256 take_field(__m256i line, size_t shift, int mask, int offset) {
  const __m256i shifted = _mm256_srlv_epi32(line, _mm256_set1_epi32(static_cast<int>(shift)));
  const __m256i stored = _mm256_and_si256(shifted, _mm256_set1_epi32(mask));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(stored, _mm256_set1_epi32(offset)));
}

struct Int8Format : FloatScales {
  static constexpr size_t kStep = 4;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = IntPair;
  static inline Step load(const uint8_t *at) {
    return {{load_32_bytes(at), load_32_bytes(at + 32)}};
  }
  static inline __m256 take(const Step &step, size_t depth, size_t half) {
    return take_field(step.half[half], 8 * depth, 255, 128);
  }
};

// Depths 0..3 lie at bits 0, 8, 16, 24, depths 4..7 at 4, 12, 20, 28.
struct Int4Format : FloatScales {
  static constexpr size_t kStep = 8;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = IntPair;
  static inline Step load(const uint8_t *at) {
    return {{load_32_bytes(at), load_32_bytes(at + 32)}};
  }
  static inline __m256 take(const Step &step, size_t depth, size_t half) {
    return take_field(step.half[half], depth < 4 ? 8 * depth : 8 * depth - 28, 15, 8);
  }
};

// Lines as INT4's. The low three bits of a code look up the magnitude, the fourth is the sign.
struct MxFp4Format {
  static constexpr size_t kStep = 8;
  static constexpr size_t kStepBytes = 64;
  static constexpr bool kHasScales = true;
  using Step = IntPair;
  static inline Step load(const uint8_t *at) {
    return {{load_32_bytes(at), load_32_bytes(at + 32)}};
  }
  static inline __m256 take(const Step &step, size_t depth, size_t half) {
    const __m256 table = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    const size_t shift = depth < 4 ? 8 * depth : 8 * depth - 28;
    const __m256i code =
        _mm256_srlv_epi32(step.half[half], _mm256_set1_epi32(static_cast<int>(shift)));
    const __m256 sign =
        _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(code, 28)), _mm256_set1_ps(-0.0f));
    return _mm256_or_ps(_mm256_permutevar8x32_ps(table, code), sign);
  }
  // The bit below the exponent makes 2^-127 of byte 0 and NaN of byte 255.
  static inline __m256 widen_exponents(__m128i bytes) {
    const __m256i exponents = _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 23);
    const __m256i is_least = _mm256_cmpeq_epi32(exponents, _mm256_setzero_si256());
    const __m256i is_nan = _mm256_cmpeq_epi32(exponents, _mm256_set1_epi32(0x7F800000));
    const __m256i bit =
        _mm256_and_si256(_mm256_or_si256(is_least, is_nan), _mm256_set1_epi32(0x400000));
    return _mm256_castsi256_ps(_mm256_or_si256(exponents, bit));
  }
  static inline FloatPair load_scales(const GemmWeights &, const uint8_t *at) {
    const __m128i bytes = load_16_bytes(at);
    return {{widen_exponents(bytes), widen_exponents(_mm_srli_si128(bytes, 8))}};
  }
};

// Tiles of this many rows and more ask for what is far ahead, into the second level; with fewer
// rows the streams of several panels keep the processor's own prefetching busy.
constexpr size_t kPrefetchFrom = 2;
constexpr size_t kPrefetchBytes = 8192;

struct TileRows {
  const float *x[kMaxRows];
  float *y[kMaxRows];
};

template <typename Format, size_t kRows, size_t kPanels>
inline void add_depth(const typename Format::Step *steps, size_t depth_in_step,
                      const FloatPair *scales, const float *const *x, size_t d,
                      FloatPair (*acc)[kPanels]) {
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t half = 0; half < 2; ++half) {
      __m256 weight = Format::take(steps[p], depth_in_step, half);
      if (Format::kHasScales) weight = _mm256_mul_ps(weight, scales[p].half[half]);
      for (size_t r = 0; r < kRows; ++r) {
        const __m256 value = _mm256_set1_ps(x[r][d]);
        acc[r][p].half[half] = _mm256_fmadd_ps(weight, value, acc[r][p].half[half]);
      }
    }
  }
}

template <size_t kRows, size_t kPanels>
inline void store_tile(const TileRows &rows, size_t panel, size_t n_columns,
                       const FloatPair (*acc)[kPanels]) {
  for (size_t p = 0; p < kPanels; ++p) {
    for (size_t half = 0; half < 2; ++half) {
      const size_t column = (panel + p) * kLanes + half * kHalfLanes;
      if (column >= n_columns) return;
      for (size_t r = 0; r < kRows; ++r) {
        store_first(rows.y[r] + column, n_columns - column, acc[r][p].half[half]);
      }
    }
  }
}

template <typename Format, size_t kPanels>
inline void load_scales(const GemmWeights &weights, size_t panel, size_t group, FloatPair *scales) {
  for (size_t p = 0; p < kPanels; ++p) {
    if constexpr (Format::kHasScales) {
      const uint8_t *at = weights.scales + (panel + p) * weights.scale_panel_bytes +
                          group * weights.scale_group_bytes;
      scales[p] = Format::load_scales(weights, at);
    } else {
      scales[p] = {{_mm256_setzero_ps(), _mm256_setzero_ps()}};
    }
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
  FloatPair acc[kRows][kPanels];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t p = 0; p < kPanels; ++p) acc[r][p] = {{_mm256_setzero_ps(), _mm256_setzero_ps()}};
  }
  const size_t group = Format::kHasScales ? weights.group : weights.depth;
  for (size_t first = 0, g = 0; first < weights.depth; first += group, ++g) {
    const size_t left = weights.depth - first;
    const size_t last = first + (left < group ? left : group);
    FloatPair scales[kPanels];
    load_scales<Format, kPanels>(weights, panel, g, scales);
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

// All panels for one tile of rows, then panels one by one.
template <typename Format, size_t kRows, size_t kPanels>
void multiply_panels(const FloatGemmArgs &args, size_t panel, size_t end, const TileRows &rows) {
  for (; end - panel >= kPanels; panel += kPanels) {
    multiply_tile<Format, kRows, kPanels>(args, panel, rows);
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
constexpr size_t kBlockPanels = 4;

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
        multiply_panels<Format, 1, 4>(args, panel, block_end, rows);
      } else if (n == 2) {
        multiply_panels<Format, 2, 2>(args, panel, block_end, rows);
      } else {
        multiply_panels<Format, 4, 1>(args, panel, block_end, rows);
      }
    }
  }
}

}  // namespace

void float_gemm_f32_avx2(const FloatGemmArgs &args) noexcept {
  multiply<F32Format>(args);
}
void float_gemm_bf16_avx2(const FloatGemmArgs &args) noexcept {
  multiply<Bf16Format>(args);
}
void float_gemm_f16_avx2(const FloatGemmArgs &args) noexcept {
  multiply<F16Format>(args);
}
void float_gemm_fp8_avx2(const FloatGemmArgs &args) noexcept {
  multiply<Fp8Format>(args);
}
void float_gemm_int8_avx2(const FloatGemmArgs &args) noexcept {
  multiply<Int8Format>(args);
}
void float_gemm_int4_avx2(const FloatGemmArgs &args) noexcept {
  multiply<Int4Format>(args);
}
void float_gemm_mxfp4_avx2(const FloatGemmArgs &args) noexcept {
  multiply<MxFp4Format>(args);
}

}  // namespace colibri::cpu

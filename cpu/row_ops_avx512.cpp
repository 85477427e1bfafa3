// SPDX-License-Identifier: Apache-2.0
//
// Operations on one row: AVX-512.
//
// Contracts in cpu/kernels.h. Definition: row_ops_ref.cpp, equal bit for bit.
//
// Tails   masked loads read zeros, which leave tree sums and maxima as they are; masked stores
//         write nothing else.
// Maxima  of |x| are taken on the bits as integers: the order is the same, and NaN and infinity
//         come out on top.
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
constexpr uint32_t kInfinityBits = 0x7F800000u;

inline float float_from_bits(uint32_t bits) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
}

// Largest |x| of the group, as bits.
inline uint32_t max_magnitude_bits(const float *x, size_t n) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  __m512i most = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512i bits = _mm512_maskz_loadu_epi32(first_lanes(n - i), x + i);
    most = _mm512_max_epu32(most, _mm512_and_si512(bits, magnitude));
  }
  return _mm512_reduce_max_epu32(most);
}

inline void quantise_group(const float *x, size_t n, int8_t *q, float *scale, int32_t *sum) {
  const uint32_t amax_bits = max_magnitude_bits(x, n);
  const float amax = float_from_bits(amax_bits);
  const float inverse = 127.0f / amax;
  const bool is_finite = amax_bits < kInfinityBits;
  const bool is_zero = inverse == __builtin_inff();
  *scale = !is_finite ? __builtin_nanf("") : is_zero ? 0.0f : amax / 127.0f;
  const __m512 factor = _mm512_set1_ps(inverse);
  __m512i total = _mm512_setzero_si512();
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    __m512i rounded = _mm512_setzero_si512();
    if (is_finite && !is_zero) {
      rounded = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor));
    }
    total = _mm512_add_epi32(total, rounded);
    _mm_mask_storeu_epi8(q + i, lanes, _mm512_cvtepi32_epi8(rounded));
  }
  *sum = _mm512_reduce_add_epi32(total);
}

}  // namespace

void quantise_row_avx512(const float *x, size_t depth, size_t group, int8_t *q, float *scales,
                         int32_t *sums) noexcept {
  for (size_t first = 0, g = 0; first < depth; first += group, ++g) {
    const size_t left = depth - first;
    quantise_group(x + first, left < group ? left : group, q + first, scales + g, sums + g);
  }
  for (size_t d = depth; d % 8 != 0; ++d) q[d] = 0;
}

void rms_norm_row_avx512(const float *x, const float *weight, float eps, size_t n,
                         float *y) noexcept {
  __m512 squares = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m512 value = _mm512_maskz_loadu_ps(first_lanes(n - i), x + i);
    squares = _mm512_fmadd_ps(value, value, squares);
  }
  const float mean = sum_lanes(squares) / static_cast<float>(n);
  const __m512 r = _mm512_set1_ps(reciprocal_root(mean + eps));
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 scaled = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), r);
    const __m512 w = _mm512_maskz_loadu_ps(lanes, weight + i);
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(w, scaled));
  }
}

void layer_norm_row_avx512(const float *x, const float *weight, const float *bias, float eps,
                           size_t n, float *y) noexcept {
  __m512 sums = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    sums = _mm512_add_ps(sums, _mm512_maskz_loadu_ps(first_lanes(n - i), x + i));
  }
  const __m512 mean = _mm512_set1_ps(sum_lanes(sums) / static_cast<float>(n));
  __m512 squares = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512 centred = _mm512_maskz_sub_ps(lanes, value, mean);
    squares = _mm512_fmadd_ps(centred, centred, squares);
  }
  const float variance = sum_lanes(squares) / static_cast<float>(n);
  const __m512 r = _mm512_set1_ps(reciprocal_root(variance + eps));
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 centred = _mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), mean);
    const __m512 w = _mm512_maskz_loadu_ps(lanes, weight + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes, bias + i);
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_fmadd_ps(w, _mm512_mul_ps(centred, r), b));
  }
}

void bf16_row_avx512(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i kept = _mm512_srli_epi32(bits, 16);
    // Half of the last kept bit, less one if that bit is even; a NaN is cut and made quiet.
    const __m512i odd = _mm512_and_si512(kept, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(_mm512_set1_epi32(0x7FFF), odd);
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __m512i quiet = _mm512_or_si512(kept, _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_mov_epi32(rounded, is_nan, quiet);
    _mm256_mask_storeu_epi16(y + i, lanes, _mm512_cvtepi32_epi16(result));
  }
}

void f16_row_avx512(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m256i halves = _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(y + i, lanes, halves);
  }
}

void silu_row_avx512(const float *gate, const float *up, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(lanes, gate + i);
    const __m512 u = _mm512_maskz_loadu_ps(lanes, up + i);
    const __m512 activated = _mm512_div_ps(g, sigmoid_denominator(g));
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_mul_ps(activated, u));
  }
}

void clamped_swish_row_avx512(const ClampedSwishArgs &args) noexcept {
  const __m512 most = _mm512_set1_ps(args.limit);
  const __m512 least = _mm512_set1_ps(-args.limit);
  for (size_t i = 0; i < args.n; i += kLanes) {
    const __mmask16 lanes = first_lanes(args.n - i);
    // Where one is NaN, VMINPS and VMAXPS give the second operand.
    const __m512 a = _mm512_min_ps(most, _mm512_maskz_loadu_ps(lanes, args.gate + i));
    const __m512 up = _mm512_min_ps(most, _mm512_maskz_loadu_ps(lanes, args.up + i));
    const __m512 b = _mm512_max_ps(least, up);
    const __m512 scaled = _mm512_mul_ps(_mm512_set1_ps(args.alpha), a);
    const __m512 activated = _mm512_div_ps(a, sigmoid_denominator(scaled));
    const __m512 more = _mm512_add_ps(b, _mm512_set1_ps(1.0f));
    _mm512_mask_storeu_ps(args.y + i, lanes, _mm512_mul_ps(activated, more));
  }
}

void sigmoid_row_avx512(const float *x, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 denominator = sigmoid_denominator(_mm512_maskz_loadu_ps(lanes, x + i));
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_div_ps(_mm512_set1_ps(1.0f), denominator));
  }
}

void softmax_row_avx512(const float *x, size_t n, float *y) noexcept {
  __m512 lane_most = _mm512_set1_ps(-__builtin_inff());
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 value = _mm512_maskz_loadu_ps(lanes, x + i);
    lane_most = _mm512_mask_max_ps(lane_most, lanes, value, lane_most);  // a NaN is passed over
  }
  const __m512 most = _mm512_set1_ps(_mm512_reduce_max_ps(lane_most));
  __m512 sums = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 p = exp_lanes(_mm512_sub_ps(_mm512_maskz_loadu_ps(lanes, x + i), most));
    sums = _mm512_mask_add_ps(sums, lanes, sums, p);
    _mm512_mask_storeu_ps(y + i, lanes, p);
  }
  const __m512 sum = _mm512_set1_ps(sum_lanes(sums));
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 p = _mm512_maskz_loadu_ps(lanes, y + i);
    _mm512_mask_storeu_ps(y + i, lanes, _mm512_div_ps(p, sum));
  }
}

void add_row_avx512(float *x, const float *y, size_t n) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __mmask16 lanes = first_lanes(n - i);
    const __m512 a = _mm512_maskz_loadu_ps(lanes, x + i);
    const __m512 b = _mm512_maskz_loadu_ps(lanes, y + i);
    _mm512_mask_storeu_ps(x + i, lanes, _mm512_add_ps(a, b));
  }
}

void combine_row_avx512(const CombineRowArgs &args) noexcept {
  for (size_t i = 0; i < args.n; i += kLanes) {
    const __mmask16 lanes = first_lanes(args.n - i);
    __m512 acc = _mm512_setzero_ps();
    for (size_t k = 0; k < args.top_k; ++k) {
      const __m512 out = _mm512_maskz_loadu_ps(lanes, args.out + k * args.out_stride + i);
      acc = _mm512_fmadd_ps(_mm512_set1_ps(args.weights[k]), out, acc);
    }
    if (args.shared != nullptr) {
      const __m512 shared = _mm512_maskz_loadu_ps(lanes, args.shared + i);
      acc = args.shared_weight != nullptr
                ? _mm512_fmadd_ps(_mm512_set1_ps(*args.shared_weight), shared, acc)
                : _mm512_add_ps(acc, shared);
    }
    const __m512 x = _mm512_maskz_loadu_ps(lanes, args.x + i);
    _mm512_mask_storeu_ps(args.x + i, lanes, _mm512_add_ps(x, acc));
  }
}

}  // namespace colibri::cpu

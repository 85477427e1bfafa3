// SPDX-License-Identifier: Apache-2.0
//
// exp and tree sums of 16 lanes for the AVX-512 kernels, step by step as float_math_ref.cpp.
// Included by kernel files of this set only; every function is static, so no baseline object can
// pick one up.

#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {

// Lanes 0 .. n - 1; n may exceed 16.
static inline __mmask16 first_lanes(size_t n) {
  return n >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << n) - 1u);
}

// exp_ref of every lane. VSCALEFPS multiplies by 2^n exactly, which is what the two products of the
// reference do.
static inline __m512 exp_lanes(__m512 x) {
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e43p-1f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-0x1.05c61p-29f), r);
  __m512 p = _mm512_set1_ps(0x1.6d1606p-10f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.12106cp-7f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555516p-5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5554d8p-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_scalef_ps(p, n);
  const __mmask16 is_low = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.336f), _CMP_LT_OQ);
  const __mmask16 is_high = _mm512_cmp_ps_mask(x, _mm512_set1_ps(88.7228f), _CMP_GT_OQ);
  p = _mm512_mask_mov_ps(p, is_low, _mm512_setzero_ps());
  return _mm512_mask_mov_ps(p, is_high, _mm512_set1_ps(__builtin_inff()));
}

// 1 / (1 + exp(-x)) and x / (1 + exp(-x)) share the denominator.
static inline __m512 sigmoid_denominator(__m512 x) {
  const __m512 negated =
      _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MIN)));
  return _mm512_add_ps(_mm512_set1_ps(1.0f), exp_lanes(negated));
}

// Tree sum of the lanes: l with l + 8, then l + 4, l + 2, l + 1.
static inline float sum_lanes(__m512 lanes) {
  const __m256 by8 = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}

// 1 / sqrt(x), both rounded.
static inline float reciprocal_root(float x) {
  return _mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1.0f), _mm_sqrt_ss(_mm_set_ss(x))));
}

}  // namespace colibri::cpu

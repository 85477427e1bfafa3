// SPDX-License-Identifier: Apache-2.0
//
// exp and tree sums for the AVX2 kernels, step by step as float_math_ref.cpp. The 16 virtual lanes
// of a tree sum are two registers. Included by kernel files of this set only; every function is
// static, so no baseline object can pick one up.

#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {

// Mask of lanes 0 .. n - 1; n may exceed 8.
static inline __m256i first_lanes(size_t n) {
  const int count = n >= 8 ? 8 : static_cast<int>(n);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// Lanes 0 .. n - 1 from memory, zeros above; nothing else is read.
static inline __m256 load_first(const float *at, size_t n) {
  return n >= 8 ? _mm256_loadu_ps(at) : _mm256_maskload_ps(at, first_lanes(n));
}
static inline void store_first(float *at, size_t n, __m256 value) {
  if (n >= 8) {
    _mm256_storeu_ps(at, value);
  } else {
    _mm256_maskstore_ps(at, first_lanes(n), value);
  }
}

// a - b; a negative difference counts as 0.
static inline size_t lanes_left(size_t a, size_t b) {
  return a > b ? a - b : 0;
}

// 2^n for n in -126 .. 127.
static inline __m256 powers_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

// exp_ref of every lane.
static inline __m256 exp_lanes(__m256 x) {
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p+0f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e43p-1f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-0x1.05c61p-29f), r);
  __m256 p = _mm256_set1_ps(0x1.6d1606p-10f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.12106cp-7f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555516p-5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5554d8p-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(exponent, 1);
  p = _mm256_mul_ps(p, powers_of_two(half));
  p = _mm256_mul_ps(p, powers_of_two(_mm256_sub_epi32(exponent, half)));
  const __m256 is_low = _mm256_cmp_ps(x, _mm256_set1_ps(-87.336f), _CMP_LT_OQ);
  const __m256 is_high = _mm256_cmp_ps(x, _mm256_set1_ps(88.7228f), _CMP_GT_OQ);
  p = _mm256_andnot_ps(is_low, p);
  return _mm256_blendv_ps(p, _mm256_set1_ps(__builtin_inff()), is_high);
}

// 1 / (1 + exp(-x)) and x / (1 + exp(-x)) share the denominator.
static inline __m256 sigmoid_denominator(__m256 x) {
  const __m256 negated = _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
  return _mm256_add_ps(_mm256_set1_ps(1.0f), exp_lanes(negated));
}

// Tree sum of lanes 0..7 and 8..15: l with l + 8, then l + 4, l + 2, l + 1.
static inline float sum_lanes(__m256 low, __m256 high) {
  const __m256 by8 = _mm256_add_ps(low, high);
  const __m128 by4 = _mm_add_ps(_mm256_castps256_ps128(by8), _mm256_extractf128_ps(by8, 1));
  const __m128 by2 = _mm_add_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_add_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}

// Largest lane; no lane is NaN.
static inline float max_lane(__m256 lanes) {
  const __m128 by4 = _mm_max_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 by2 = _mm_max_ps(by4, _mm_movehl_ps(by4, by4));
  return _mm_cvtss_f32(_mm_max_ss(by2, _mm_shuffle_ps(by2, by2, 1)));
}

// 1 / sqrt(x), both rounded.
static inline float reciprocal_root(float x) {
  return _mm_cvtss_f32(_mm_div_ss(_mm_set_ss(1.0f), _mm_sqrt_ss(_mm_set_ss(x))));
}

}  // namespace colibri::cpu

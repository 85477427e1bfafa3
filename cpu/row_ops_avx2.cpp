// SPDX-License-Identifier: Apache-2.0
//
// Operations on one row: AVX2.
//
// Contracts in cpu/kernels.h. Definition: row_ops_ref.cpp, equal bit for bit.
//
// Tails   masked loads read zeros, which leave tree sums and maxima as they are; masked stores
//         write nothing else.
// Maxima  of |x| are taken on the bits as integers: the order is the same, and NaN and infinity
//         come out on top.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/float_math_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kTreeLanes = 16;
constexpr uint32_t kInfinityBits = 0x7F800000u;

inline float float_from_bits(uint32_t bits) {
  return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
}

// Largest |x| of the group, as bits.
inline uint32_t max_magnitude_bits(const float *x, size_t n) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i most = _mm256_setzero_si256();
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256i bits = _mm256_castps_si256(load_first(x + i, n - i));
    most = _mm256_max_epu32(most, _mm256_and_si256(bits, magnitude));
  }
  __m128i by4 = _mm_max_epu32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
  by4 = _mm_max_epu32(by4, _mm_shuffle_epi32(by4, 0x4E));
  by4 = _mm_max_epu32(by4, _mm_shuffle_epi32(by4, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(by4));
}

inline int32_t sum_integers(__m256i lanes) {
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

// Eight int32 in -127..127 to int8; n of them are stored.
inline void store_bytes(int8_t *q, size_t n, __m256i lanes) {
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
  const int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(words, words));
  __builtin_memcpy(q, &bytes, n >= kLanes ? kLanes : n);
}

inline void quantise_group(const float *x, size_t n, int8_t *q, float *scale, int32_t *sum) {
  const uint32_t amax_bits = max_magnitude_bits(x, n);
  const float amax = float_from_bits(amax_bits);
  const float inverse = 127.0f / amax;
  const bool is_finite = amax_bits < kInfinityBits;
  const bool is_zero = inverse == __builtin_inff();
  *scale = !is_finite ? __builtin_nanf("") : is_zero ? 0.0f : amax / 127.0f;
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i total = _mm256_setzero_si256();
  for (size_t i = 0; i < n; i += kLanes) {
    __m256i rounded = _mm256_setzero_si256();
    if (is_finite && !is_zero) {
      rounded = _mm256_cvtps_epi32(_mm256_mul_ps(load_first(x + i, n - i), factor));
    }
    total = _mm256_add_epi32(total, rounded);
    store_bytes(q + i, n - i, rounded);
  }
  *sum = sum_integers(total);
}

// The first n of eight 16-bit numbers.
inline void store_halves(uint16_t *at, size_t n, __m128i halves) {
  if (n >= kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i *>(at), halves);
  alignas(16) uint16_t all[kLanes];
  _mm_store_si128(reinterpret_cast<__m128i *>(all), halves);
  for (size_t i = 0; i < n; ++i) at[i] = all[i];
}

}  // namespace

void quantise_row_avx2(const float *x, size_t depth, size_t group, int8_t *q, float *scales,
                       int32_t *sums) noexcept {
  for (size_t first = 0, g = 0; first < depth; first += group, ++g) {
    const size_t left = depth - first;
    quantise_group(x + first, left < group ? left : group, q + first, scales + g, sums + g);
  }
  for (size_t d = depth; d % 8 != 0; ++d) q[d] = 0;
}

void rms_norm_row_avx2(const float *x, const float *weight, float eps, size_t n,
                       float *y) noexcept {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  for (size_t i = 0; i < n; i += kTreeLanes) {
    const __m256 a = load_first(x + i, n - i);
    const __m256 b = load_first(x + i + kLanes, lanes_left(n, i + kLanes));
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  const float mean = sum_lanes(low, high) / static_cast<float>(n);
  const __m256 r = _mm256_set1_ps(reciprocal_root(mean + eps));
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 scaled = _mm256_mul_ps(load_first(x + i, n - i), r);
    store_first(y + i, n - i, _mm256_mul_ps(load_first(weight + i, n - i), scaled));
  }
}

void layer_norm_row_avx2(const float *x, const float *weight, const float *bias, float eps,
                         size_t n, float *y) noexcept {
  __m256 low = _mm256_setzero_ps();
  __m256 high = _mm256_setzero_ps();
  for (size_t i = 0; i < n; i += kTreeLanes) {
    low = _mm256_add_ps(low, load_first(x + i, n - i));
    high = _mm256_add_ps(high, load_first(x + i + kLanes, lanes_left(n, i + kLanes)));
  }
  const __m256 mean = _mm256_set1_ps(sum_lanes(low, high) / static_cast<float>(n));
  low = high = _mm256_setzero_ps();
  for (size_t i = 0; i < n; i += kTreeLanes) {
    const size_t n_high = lanes_left(n, i + kLanes);
    const __m256 in_low = _mm256_castsi256_ps(first_lanes(n - i));
    const __m256 in_high = _mm256_castsi256_ps(first_lanes(n_high));
    const __m256 a = _mm256_and_ps(in_low, _mm256_sub_ps(load_first(x + i, n - i), mean));
    const __m256 b =
        _mm256_and_ps(in_high, _mm256_sub_ps(load_first(x + i + kLanes, n_high), mean));
    low = _mm256_fmadd_ps(a, a, low);
    high = _mm256_fmadd_ps(b, b, high);
  }
  const float variance = sum_lanes(low, high) / static_cast<float>(n);
  const __m256 r = _mm256_set1_ps(reciprocal_root(variance + eps));
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 centred = _mm256_sub_ps(load_first(x + i, n - i), mean);
    const __m256 w = load_first(weight + i, n - i);
    const __m256 b = load_first(bias + i, n - i);
    store_first(y + i, n - i, _mm256_fmadd_ps(w, _mm256_mul_ps(centred, r), b));
  }
}

void bf16_row_avx2(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 value = load_first(x + i, n - i);
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i kept = _mm256_srli_epi32(bits, 16);
    // Half of the last kept bit, less one if that bit is even; a NaN is cut and made quiet.
    const __m256i odd = _mm256_and_si256(kept, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(_mm256_set1_epi32(0x7FFF), odd);
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(kept, _mm256_set1_epi32(0x40));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m256i result = _mm256_blendv_epi8(rounded, quiet, is_nan);
    store_halves(
        y + i, n - i,
        _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
  }
}

void f16_row_avx2(const float *x, size_t n, uint16_t *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    store_halves(
        y + i, n - i,
        _mm256_cvtps_ph(load_first(x + i, n - i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
}

void silu_row_avx2(const float *gate, const float *up, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 g = load_first(gate + i, n - i);
    const __m256 u = load_first(up + i, n - i);
    store_first(y + i, n - i, _mm256_mul_ps(_mm256_div_ps(g, sigmoid_denominator(g)), u));
  }
}

void clamped_swish_row_avx2(const ClampedSwishArgs &args) noexcept {
  const __m256 most = _mm256_set1_ps(args.limit);
  const __m256 least = _mm256_set1_ps(-args.limit);
  for (size_t i = 0; i < args.n; i += kLanes) {
    const size_t n = args.n - i;
    // Where one is NaN, VMINPS and VMAXPS give the second operand.
    const __m256 a = _mm256_min_ps(most, load_first(args.gate + i, n));
    const __m256 b = _mm256_max_ps(least, _mm256_min_ps(most, load_first(args.up + i, n)));
    const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(args.alpha), a);
    const __m256 activated = _mm256_div_ps(a, sigmoid_denominator(scaled));
    store_first(args.y + i, n, _mm256_mul_ps(activated, _mm256_add_ps(b, _mm256_set1_ps(1.0f))));
  }
}

void sigmoid_row_avx2(const float *x, size_t n, float *y) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 denominator = sigmoid_denominator(load_first(x + i, n - i));
    store_first(y + i, n - i, _mm256_div_ps(_mm256_set1_ps(1.0f), denominator));
  }
}

void softmax_row_avx2(const float *x, size_t n, float *y) noexcept {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  __m256 most = lowest;
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 lanes = _mm256_castsi256_ps(first_lanes(n - i));
    const __m256 value = _mm256_blendv_ps(lowest, load_first(x + i, n - i), lanes);
    most = _mm256_max_ps(value, most);  // a NaN is passed over
  }
  most = _mm256_set1_ps(max_lane(most));
  __m256 sums[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t i = 0, half = 0; i < n; i += kLanes, half ^= 1) {
    const __m256 p = exp_lanes(_mm256_sub_ps(load_first(x + i, n - i), most));
    const __m256 lanes = _mm256_castsi256_ps(first_lanes(n - i));
    sums[half] = _mm256_add_ps(sums[half], _mm256_and_ps(lanes, p));
    store_first(y + i, n - i, p);
  }
  const __m256 sum = _mm256_set1_ps(sum_lanes(sums[0], sums[1]));
  for (size_t i = 0; i < n; i += kLanes) {
    store_first(y + i, n - i, _mm256_div_ps(load_first(y + i, n - i), sum));
  }
}

void add_row_avx2(float *x, const float *y, size_t n) noexcept {
  for (size_t i = 0; i < n; i += kLanes) {
    const __m256 sum = _mm256_add_ps(load_first(x + i, n - i), load_first(y + i, n - i));
    store_first(x + i, n - i, sum);
  }
}

void combine_row_avx2(const CombineRowArgs &args) noexcept {
  for (size_t i = 0; i < args.n; i += kLanes) {
    const size_t n = args.n - i;
    __m256 acc = _mm256_setzero_ps();
    for (size_t k = 0; k < args.top_k; ++k) {
      const __m256 out = load_first(args.out + k * args.out_stride + i, n);
      acc = _mm256_fmadd_ps(_mm256_set1_ps(args.weights[k]), out, acc);
    }
    if (args.shared != nullptr) {
      const __m256 shared = load_first(args.shared + i, n);
      acc = args.shared_weight != nullptr
                ? _mm256_fmadd_ps(_mm256_set1_ps(*args.shared_weight), shared, acc)
                : _mm256_add_ps(acc, shared);
    }
    store_first(args.x + i, n, _mm256_add_ps(load_first(args.x + i, n), acc));
  }
}

}  // namespace colibri::cpu

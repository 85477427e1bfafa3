// SPDX-License-Identifier: Apache-2.0
//
// The two lines of the roof: multiply-adds in registers, and plain reads: AVX2.
//
// Contract: PeakFn and ReadFn in cpu/kernels.h.
//
// Chains  16 registers hold eight accumulators (FMA: ten), the operands and the products; products
//         do not depend on each other, and an addition takes one cycle.
// Guards  an empty assembler statement before each product makes the compiler believe that the
//         operand is another one, so that it neither merges nor hoists; accumulators start with
//         different values and are handed to such a statement at the end.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kChains = 8;
constexpr size_t kFloatChains = 10;
constexpr size_t kLoadBytes = 32;
constexpr size_t kLineBytes = 64;
constexpr size_t kPrefetchBytes = 4096;

// kStreams parts of the memory, each read ascending, in turn a unit of each.
template <size_t kStreams, bool kPrefetches>
uint64_t read_streams(const uint8_t *data, size_t n_bytes) {
  constexpr size_t kLoads = 8 / kStreams;
  const size_t stream_bytes = n_bytes / kStreams;
  __m256i sums[kStreams][kLoads];
  for (size_t s = 0; s < kStreams; ++s) {
    for (size_t i = 0; i < kLoads; ++i) sums[s][i] = _mm256_setzero_si256();
  }
  for (size_t at = 0; at < stream_bytes; at += kLoads * kLoadBytes) {
    for (size_t s = 0; s < kStreams; ++s) {
      for (size_t i = 0; i < kLoads; ++i) {
        const uint8_t *from = data + s * stream_bytes + at + i * kLoadBytes;
        if (kPrefetches && i * kLoadBytes % kLineBytes == 0) {
          _mm_prefetch(reinterpret_cast<const char *>(from + kPrefetchBytes), _MM_HINT_T1);
        }
        const __m256i words = _mm256_load_si256(reinterpret_cast<const __m256i *>(from));
        sums[s][i] = _mm256_xor_si256(sums[s][i], words);
      }
    }
  }
  __m256i sum = _mm256_setzero_si256();
  for (size_t s = 0; s < kStreams; ++s) {
    for (size_t i = 0; i < kLoads; ++i) sum = _mm256_xor_si256(sum, sums[s][i]);
  }
  uint64_t words[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(words), sum);
  return words[0] ^ words[1] ^ words[2] ^ words[3];
}

}  // namespace

uint64_t int4_peak_avx2(uint64_t n_rounds) noexcept {
  const __m256i weights = _mm256_set1_epi8(7);
  __m256i values = _mm256_set1_epi8(3);
  __m256i pairs[kChains];
  for (size_t i = 0; i < kChains; ++i) pairs[i] = _mm256_set1_epi16(static_cast<short>(i));
  for (uint64_t round = 0; round < n_rounds; ++round) {
    for (size_t i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(values));
      pairs[i] = _mm256_add_epi16(pairs[i], _mm256_maddubs_epi16(weights, values));
    }
  }
  for (size_t i = 0; i < kChains; ++i) asm volatile("" : : "x"(pairs[i]));
  return n_rounds * kChains * 32;
}

uint64_t int8_peak_avx2(uint64_t n_rounds) noexcept {
  const __m256i weights = _mm256_set1_epi16(7);
  __m256i values = _mm256_set1_epi16(3);
  __m256i dots[kChains];
  for (size_t i = 0; i < kChains; ++i) dots[i] = _mm256_set1_epi32(static_cast<int>(i));
  for (uint64_t round = 0; round < n_rounds; ++round) {
    for (size_t i = 0; i < kChains; ++i) {
      asm volatile("" : "+x"(values));
      dots[i] = _mm256_add_epi32(dots[i], _mm256_madd_epi16(weights, values));
    }
  }
  for (size_t i = 0; i < kChains; ++i) asm volatile("" : : "x"(dots[i]));
  return n_rounds * kChains * 16;
}

uint64_t float_peak_avx2(uint64_t n_rounds) noexcept {
  __m256 weights = _mm256_set1_ps(0.001f);
  __m256 values = _mm256_set1_ps(0.002f);
  __m256 sums[kFloatChains];
  for (size_t i = 0; i < kFloatChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  for (uint64_t round = 0; round < n_rounds; ++round) {
    asm volatile("" : "+x"(weights), "+x"(values));
    for (size_t i = 0; i < kFloatChains; ++i) sums[i] = _mm256_fmadd_ps(weights, values, sums[i]);
  }
  for (size_t i = 0; i < kFloatChains; ++i) asm volatile("" : : "x"(sums[i]));
  return n_rounds * kFloatChains * 8;
}

uint64_t read_ascending_avx2(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, false>(data, n_bytes);
}
uint64_t read_prefetched_avx2(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, true>(data, n_bytes);
}
uint64_t read_four_streams_avx2(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, false>(data, n_bytes);
}
uint64_t read_prefetched_streams_avx2(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, true>(data, n_bytes);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// The two lines of the roof: multiply-adds in registers, and plain reads: AVX-512 VNNI.
//
// Contract: PeakFn and ReadFn in cpu/kernels.h.
//
// Chains  16 independent ones: the latency is 4 to 5 cycles, and at most two begin in a cycle.
// Guards  accumulators start with different values and are handed to an empty assembler statement,
//         so that the compiler can neither merge nor drop them.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kChains = 16;
constexpr size_t kLineBytes = 64;
// T1 at 4 KiB was the best of T0, T1 and NTA at 1 to 16 KiB on AMD Zen 4, with one stream (+6 %)
// and with four (+12 % over four without).
constexpr size_t kPrefetchBytes = 4096;

// kStreams parts of the memory, each read ascending, in turn a unit of each.
template <size_t kStreams, bool kPrefetches>
uint64_t read_streams(const uint8_t *data, size_t n_bytes) {
  constexpr size_t kLines = kChains / 2 / kStreams;
  const size_t stream_bytes = n_bytes / kStreams;
  __m512i sums[kStreams][kLines];
  for (size_t s = 0; s < kStreams; ++s) {
    for (size_t i = 0; i < kLines; ++i) sums[s][i] = _mm512_setzero_si512();
  }
  for (size_t at = 0; at < stream_bytes; at += kLines * kLineBytes) {
    for (size_t s = 0; s < kStreams; ++s) {
      for (size_t i = 0; i < kLines; ++i) {
        const uint8_t *line = data + s * stream_bytes + at + i * kLineBytes;
        if (kPrefetches) {
          _mm_prefetch(reinterpret_cast<const char *>(line + kPrefetchBytes), _MM_HINT_T1);
        }
        sums[s][i] = _mm512_xor_si512(sums[s][i], _mm512_load_si512(line));
      }
    }
  }
  __m512i sum = _mm512_setzero_si512();
  for (size_t s = 0; s < kStreams; ++s) {
    for (size_t i = 0; i < kLines; ++i) sum = _mm512_xor_si512(sum, sums[s][i]);
  }
  uint64_t words[8];
  _mm512_storeu_si512(words, sum);
  uint64_t result = 0;
  for (size_t i = 0; i < 8; ++i) result ^= words[i];
  return result;
}

}  // namespace

uint64_t integer_peak_avx512(uint64_t n_rounds) noexcept {
  __m512i weights = _mm512_set1_epi8(7);
  __m512i values = _mm512_set1_epi8(3);
  __m512i dots[kChains];
  for (size_t i = 0; i < kChains; ++i) dots[i] = _mm512_set1_epi32(static_cast<int>(i));
  for (uint64_t round = 0; round < n_rounds; ++round) {
    asm volatile("" : "+v"(weights), "+v"(values));
    for (size_t i = 0; i < kChains; ++i) dots[i] = _mm512_dpbusd_epi32(dots[i], weights, values);
  }
  for (size_t i = 0; i < kChains; ++i) asm volatile("" : : "v"(dots[i]));
  return n_rounds * kChains * 64;
}

uint64_t float_peak_avx512(uint64_t n_rounds) noexcept {
  __m512 weights = _mm512_set1_ps(0.001f);
  __m512 values = _mm512_set1_ps(0.002f);
  __m512 sums[kChains];
  for (size_t i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  for (uint64_t round = 0; round < n_rounds; ++round) {
    asm volatile("" : "+v"(weights), "+v"(values));
    for (size_t i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(weights, values, sums[i]);
  }
  for (size_t i = 0; i < kChains; ++i) asm volatile("" : : "v"(sums[i]));
  return n_rounds * kChains * 16;
}

uint64_t read_ascending_avx512(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, false>(data, n_bytes);
}
uint64_t read_prefetched_avx512(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, true>(data, n_bytes);
}
uint64_t read_four_streams_avx512(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, false>(data, n_bytes);
}
uint64_t read_prefetched_streams_avx512(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, true>(data, n_bytes);
}

}  // namespace colibri::cpu

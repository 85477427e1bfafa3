// SPDX-License-Identifier: Apache-2.0
//
// The two lines of the roof: multiply-adds in registers, and plain reads: baseline code.
//
// Contract: PeakFn and ReadFn in cpu/kernels.h. What the scalar reference kernels use: an integer
// multiplication and an addition, or fmaf(). An empty assembler statement before each product makes
// the compiler believe that the operand is another one, so that it neither merges, hoists nor
// vectorises.

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kernels.h"

namespace colibri::cpu {
namespace {

constexpr size_t kChains = 6;
constexpr size_t kPrefetchBytes = 4096;

// kStreams parts of the memory, each read ascending, in turn a line of each.
template <size_t kStreams, bool kPrefetches>
uint64_t read_streams(const uint8_t *data, size_t n_bytes) {
  constexpr size_t kLineBytes = 64;
  const size_t stream_bytes = n_bytes / kStreams;
  uint64_t sums[8] = {};
  for (size_t at = 0; at < stream_bytes; at += kLineBytes) {
    for (size_t s = 0; s < kStreams; ++s) {
      const uint8_t *line = data + s * stream_bytes + at;
      if (kPrefetches) __builtin_prefetch(line + kPrefetchBytes);
      for (size_t i = 0; i < 8; ++i) {
        uint64_t word;
        memcpy(&word, line + 8 * i, sizeof word);
        sums[i] ^= word;
      }
    }
  }
  uint64_t sum = 0;
  for (size_t i = 0; i < 8; ++i) sum ^= sums[i];
  return sum;
}

}  // namespace

uint64_t integer_peak_ref(uint64_t n_rounds) noexcept {
  const uint32_t weight = 7;
  uint32_t value = 3;
  uint32_t sums[kChains];
  for (size_t i = 0; i < kChains; ++i) sums[i] = static_cast<uint32_t>(i);
  for (uint64_t round = 0; round < n_rounds; ++round) {
    for (size_t i = 0; i < kChains; ++i) {
      uint32_t factor = weight;
      asm volatile("" : "+r"(value), "+r"(factor));
      sums[i] += factor * value;
    }
  }
  for (size_t i = 0; i < kChains; ++i) asm volatile("" : : "r"(sums[i]));
  return n_rounds * kChains;
}

uint64_t float_peak_ref(uint64_t n_rounds) noexcept {
  float sums[kChains];
  for (size_t i = 0; i < kChains; ++i) sums[i] = static_cast<float>(i);
  volatile float weight = 0.001f;
  for (uint64_t round = 0; round < n_rounds; ++round) {
    const float factor = weight;
    for (size_t i = 0; i < kChains; ++i) sums[i] = fmaf(factor, 0.002f, sums[i]);
  }
  for (size_t i = 0; i < kChains; ++i) weight = sums[i];
  return n_rounds * kChains;
}

uint64_t read_ascending_ref(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, false>(data, n_bytes);
}
uint64_t read_prefetched_ref(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<1, true>(data, n_bytes);
}
uint64_t read_four_streams_ref(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, false>(data, n_bytes);
}
uint64_t read_prefetched_streams_ref(const uint8_t *data, size_t n_bytes) noexcept {
  return read_streams<4, true>(data, n_bytes);
}

}  // namespace colibri::cpu

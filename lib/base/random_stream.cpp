// SPDX-License-Identifier: Apache-2.0
//
// Only operations that IEEE 754 defines exactly, and the library's own logarithm.

#include "lib/base/random_stream.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "lib/base/portable_math.h"

namespace colibri {
namespace {

uint64_t split_mix(uint64_t *state) noexcept {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// In (-1, 1).
double to_unit(uint64_t bits) noexcept {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-52 - 1.0;
}

}  // namespace

RandomStream::RandomStream(std::initializer_list<uint64_t> key) noexcept {
  uint64_t seed = 0;
  for (const uint64_t number : key) {
    seed ^= number;
    seed = split_mix(&seed);
  }
  for (uint64_t &word : state_) word = split_mix(&seed);
}

uint64_t RandomStream::next() noexcept {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint32_t RandomStream::next_below(uint32_t n) noexcept {
  return static_cast<uint32_t>(((next() >> 32) * n) >> 32);
}

// Marsaglia's polar method: a point of the unit disc gives two numbers.
double RandomStream::next_normal() noexcept {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  double x, y, square;
  do {
    x = to_unit(next());
    y = to_unit(next());
    square = x * x + y * y;
  } while (square >= 1.0 || square < 1e-300);
  const double factor = std::sqrt(-2.0 * portable_log(square) / square);
  spare_normal_ = y * factor;
  has_spare_ = true;
  return x * factor;
}

void RandomStream::fill(uint8_t *place, size_t bytes) noexcept {
  for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
    const uint64_t word = next();
    std::memcpy(place + at, &word, sizeof word);
  }
}

}  // namespace colibri

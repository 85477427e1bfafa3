// SPDX-License-Identifier: Apache-2.0
//
// A fast 64-bit hash of bytes, eight at a time, for lookup tables and for the identity of files. It
// does not resist an adversary who knows the seed: tables over untrusted keys take a seed that
// differs from run to run, identities take seed 0 and are a guard against mistakes, not a
// signature.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace colibri {

// Upper half xor lower half of the 128-bit product.
inline uint64_t fold_multiply(uint64_t a, uint64_t b) noexcept {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// The same bytes and seed give the same number on every little-endian machine and in every version.
inline uint64_t hash_bytes(std::string_view bytes, uint64_t seed) noexcept {
  constexpr uint64_t kFirst = 0x9e3779b97f4a7c15u;
  constexpr uint64_t kSecond = 0xd1b54a32d192ed03u;
  uint64_t state = fold_multiply(seed ^ kFirst, static_cast<uint64_t>(bytes.size()) ^ kSecond);
  const char *next = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; next += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, next, 8);
    state = fold_multiply(state ^ word, kFirst) + kSecond;
  }
  if (left != 0) {
    uint64_t word = 0;
    std::memcpy(&word, next, left);
    state = fold_multiply(state ^ word, kFirst) + kSecond;
  }
  return fold_multiply(state ^ kSecond, kFirst);
}

}  // namespace colibri

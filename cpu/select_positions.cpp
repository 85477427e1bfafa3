// SPDX-License-Identifier: Apache-2.0
//
// Radix selection: scores become unsigned keys of the same order; three histograms (11, 11 and 10
// bits) find the key of rank top_k. One last pass takes all larger keys and the first of the equal
// ones, which is ascending by itself.

#include "cpu/select_positions.h"

#include <bit>
#include <cstddef>

namespace colibri::cpu {
namespace {

// Larger score, larger key. Only NaN has key 0.
uint32_t order_key(float score) {
  if (score != score) return 0;
  const uint32_t bits = std::bit_cast<uint32_t>(score + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};
constexpr size_t kBuckets = 1u << 11;

}  // namespace

void select_positions(const float *scores, uint32_t n, uint32_t top_k,
                      int32_t *positions) noexcept {
  uint32_t prefix = 0;        // leading digits of the key that is looked for
  uint32_t prefix_mask = 0;   // bits of those digits
  uint32_t n_wanted = top_k;  // rank of that key among the keys with this prefix
  for (const Digit &digit : kDigits) {
    uint32_t counts[kBuckets] = {};
    const uint32_t digit_mask = (1u << digit.bits) - 1;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t key = order_key(scores[i]);
      if ((key & prefix_mask) == prefix) ++counts[(key >> digit.shift) & digit_mask];
    }
    uint32_t bucket = digit_mask;
    while (counts[bucket] < n_wanted) n_wanted -= counts[bucket--];
    prefix |= bucket << digit.shift;
    prefix_mask |= digit_mask << digit.shift;
  }
  uint32_t n_equal = n_wanted;
  uint32_t n_written = 0;
  for (uint32_t i = 0; i < n && n_written < top_k; ++i) {
    const uint32_t key = order_key(scores[i]);
    if (key < prefix || (key == prefix && n_equal == 0)) continue;
    if (key == prefix) --n_equal;
    positions[n_written++] = static_cast<int32_t>(i);
  }
}

}  // namespace colibri::cpu

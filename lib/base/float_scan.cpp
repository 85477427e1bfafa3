// SPDX-License-Identifier: Apache-2.0
//
// Whole blocks are looked at without a branch per value; only the block that has what is wanted is
// gone through one by one.

#include "lib/base/float_scan.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace colibri {
namespace {

constexpr size_t kBlock = 256;
constexpr size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The first value for which is_wanted is true.
template <typename Predicate>
size_t find_first(std::span<const float> values, Predicate is_wanted) noexcept {
  size_t first = 0;
  for (; first + kBlock <= values.size(); first += kBlock) {
    uint32_t n_wanted = 0;
    for (size_t i = 0; i < kBlock; ++i) n_wanted += is_wanted(values[first + i]) ? 1 : 0;
    if (n_wanted != 0) break;
  }
  while (first < values.size() && !is_wanted(values[first])) ++first;
  return first;
}

float block_largest(const float *values) noexcept {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, -kInfinity);
  for (size_t i = 0; i < kBlock; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = values[i + lane] > lanes[lane] ? values[i + lane] : lanes[lane];
    }
  }
  return *std::max_element(lanes, lanes + kLanes);
}

}  // namespace

size_t find_non_finite(std::span<const float> values) noexcept {
  constexpr uint32_t kExponent = 0x7F800000;
  return find_first(values, [](float value) {
    return (std::bit_cast<uint32_t>(value) & kExponent) == kExponent;
  });
}

size_t find_nan_or_infinity(std::span<const float> values) noexcept {
  // True for everything below +infinity, false for NaN.
  return find_first(values, [](float value) { return !(value < kInfinity); });
}

size_t find_largest(std::span<const float> values) noexcept {
  float largest = -kInfinity;
  size_t best_block = values.size();
  size_t first = 0;
  for (; first + kBlock <= values.size(); first += kBlock) {
    const float candidate = block_largest(values.data() + first);
    if (!(candidate > largest)) continue;
    largest = candidate;
    best_block = first;
  }
  size_t best = best_block;
  while (best < values.size() && values[best] != largest) ++best;
  for (; first < values.size(); ++first) {
    if (!(values[first] > largest)) continue;
    largest = values[first];
    best = first;
  }
  return best;
}

}  // namespace colibri

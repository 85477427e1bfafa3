// SPDX-License-Identifier: Apache-2.0
//
// Exact top-k against a plain sort.

#include "cpu/select_positions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/catch.h"
#include "tests/support/guarded_array.h"

using colibri::cpu::select_positions;
using colibri::test::GuardedArray;

namespace {

std::vector<int32_t> sort_and_take(const GuardedArray<float> &scores, size_t top_k) {
  std::vector<int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const float x = scores[static_cast<size_t>(a)];
    const float y = scores[static_cast<size_t>(b)];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return x > y;
  });
  order.resize(top_k);
  std::sort(order.begin(), order.end());
  return order;
}

void check(const GuardedArray<float> &scores, size_t top_k) {
  CAPTURE(scores.size(), top_k);
  GuardedArray<int32_t> got(top_k);
  select_positions(scores.data(), static_cast<uint32_t>(scores.size()),
                   static_cast<uint32_t>(top_k), got.data());
  REQUIRE(std::vector<int32_t>(got.begin(), got.end()) == sort_and_take(scores, top_k));
}

}  // namespace

TEST_CASE("the largest scores are selected whatever their values") {
  std::mt19937 random(51);
  std::normal_distribution<float> normal;
  for (const size_t n : {1, 2, 5, 100, 3000}) {
    GuardedArray<float> scores(n);
    for (float &score : scores) score = normal(random);
    for (const size_t top_k : {size_t{1}, n / 3 + 1, n}) check(scores, top_k);
  }
}

TEST_CASE("ties go to the lower position") {
  std::mt19937 random(52);
  GuardedArray<float> scores(1000);
  for (float &score : scores) score = static_cast<float>(random() % 5);
  for (const size_t top_k : {1, 10, 199, 500, 999}) check(scores, top_k);
  std::fill(scores.begin(), scores.end(), 0.0f);
  check(scores, 17);
}

TEST_CASE("minus zero equals zero, and NaN is below minus infinity") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {-0.0f, 0.0f, NAN, -infinity, infinity, -NAN, -1.0f, 0.0f, -0.0f, 1e-40f};
  GuardedArray<float> scores(std::size(values));
  std::copy(std::begin(values), std::end(values), scores.begin());
  for (size_t top_k = 1; top_k <= scores.size(); ++top_k) check(scores, top_k);
}

TEST_CASE("keys that differ in the last bit only are told apart") {
  GuardedArray<float> scores(64);
  float value = 1.0f;
  for (float &score : scores) score = value = std::nextafter(value, 2.0f);
  for (const size_t top_k : {1, 31, 63}) check(scores, top_k);
}

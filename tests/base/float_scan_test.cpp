// SPDX-License-Identifier: Apache-2.0
//
// Every place of every size around a block, against the plainest loops.

#include "lib/base/float_scan.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.h"

using colibri::find_largest;
using colibri::find_nan_or_infinity;
using colibri::find_non_finite;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");
constexpr size_t kSizes[] = {0, 1, 15, 16, 255, 256, 257, 512, 700};

std::vector<float> make_row(size_t size) {
  std::mt19937 random(static_cast<uint32_t>(size) + 1);
  std::uniform_real_distribution<float> values(-3.0f, 3.0f);
  std::vector<float> row(size);
  for (float &value : row) value = values(random);
  return row;
}

size_t plain_largest(const std::vector<float> &row) {
  size_t best = row.size();
  float largest = -kInfinity;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > largest) {
      largest = row[i];
      best = i;
    }
  }
  return best;
}

}  // namespace

TEST_CASE("the first value that is not finite is found wherever it is") {
  for (const size_t size : kSizes) {
    std::vector<float> row = make_row(size);
    CHECK(find_non_finite(row) == size);
    for (size_t place = 0; place < size; place += 3) {
      for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
        const float good = row[place];
        row[place] = bad;
        CHECK(find_non_finite(row) == place);
        row[place] = good;
      }
    }
  }
}

TEST_CASE("minus infinity is allowed where only NaN and infinity are looked for") {
  for (const size_t size : kSizes) {
    std::vector<float> row = make_row(size);
    if (size > 2) row[size / 2] = -kInfinity;
    CHECK(find_nan_or_infinity(row) == size);
    for (size_t place = 0; place < size; place += 3) {
      for (const float bad : {kNan, -kNan, kInfinity}) {
        const float good = row[place];
        row[place] = bad;
        CHECK(find_nan_or_infinity(row) == place);
        row[place] = good;
      }
    }
  }
}

TEST_CASE("the largest value is the first of equals, wherever it is") {
  for (const size_t size : kSizes) {
    std::vector<float> row = make_row(size);
    CHECK(find_largest(row) == plain_largest(row));
    for (size_t place = 0; place < size; place += 3) {
      std::vector<float> changed = row;
      changed[place] = 5.0f;
      CHECK(find_largest(changed) == place);
      changed[size - 1] = 5.0f;
      CHECK(find_largest(changed) == place);
      changed[0] = kNan;
      CHECK(find_largest(changed) == plain_largest(changed));
    }
  }
}

TEST_CASE("a row without a number above minus infinity has no largest value") {
  for (const size_t size : kSizes) {
    CHECK(find_largest(std::vector<float>(size, -kInfinity)) == size);
    CHECK(find_largest(std::vector<float>(size, kNan)) == size);
  }
}

TEST_CASE("zeros of both signs are equal, and the first one is the largest") {
  for (const size_t size : {size_t{20}, size_t{300}}) {
    std::vector<float> row(size, -1.0f);
    row[7] = -0.0f;
    row[9] = 0.0f;
    CHECK(find_largest(row) == 7);
  }
}

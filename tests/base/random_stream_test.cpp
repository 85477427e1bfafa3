// SPDX-License-Identifier: Apache-2.0

#include "lib/base/random_stream.h"

#include <cmath>
#include <set>
#include <vector>

#include "tests/support/catch.h"

namespace {

using namespace colibri;

TEST_CASE("a key decides a stream, and no two keys have the same one") {
  RandomStream again{7, 3};
  RandomStream stream{7, 3};
  for (int i = 0; i < 100; ++i) CHECK(stream.next() == again.next());

  std::set<uint64_t> firsts;
  for (uint64_t a = 0; a < 30; ++a) {
    firsts.insert(RandomStream{a}.next());
    for (uint64_t b = 0; b < 30; ++b) firsts.insert(RandomStream{a, b}.next());
  }
  CHECK(firsts.size() == 30 + 30 * 30);
}

TEST_CASE("the numbers of a key never change") {
  RandomStream stream{1, 2, 3};
  CHECK(stream.next() == 0xca69c028e6e283e8);
  CHECK(stream.next() == 0xc86df1a5f8f50802);
}

TEST_CASE("normal numbers have mean 0, variance 1 and the tails of the distribution") {
  RandomStream stream{11};
  constexpr int kNumbers = 200'000;
  double sum = 0, square = 0, fourth = 0;
  int n_beyond_two = 0;
  for (int i = 0; i < kNumbers; ++i) {
    const double x = stream.next_normal();
    sum += x;
    square += x * x;
    fourth += x * x * x * x;
    n_beyond_two += std::fabs(x) > 2.0 ? 1 : 0;
  }
  CHECK(sum / kNumbers == Approx(0.0).margin(0.01));
  CHECK(square / kNumbers == Approx(1.0).margin(0.01));
  CHECK(fourth / kNumbers == Approx(3.0).margin(0.1));
  CHECK(n_beyond_two / double{kNumbers} == Approx(0.0455).margin(0.002));
}

TEST_CASE("numbers below a bound are even") {
  RandomStream stream{5};
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70'000; ++i) {
    const uint32_t number = stream.next_below(7);
    REQUIRE(number < 7);
    ++counts[number];
  }
  for (const int count : counts) CHECK(count == Approx(10'000).margin(400));
  CHECK(stream.next_below(1) == 0);
}

TEST_CASE("memory is filled with even bytes, and no byte behind it is touched") {
  std::vector<uint8_t> bytes(64'008, 0xAB);
  RandomStream stream{9};
  stream.fill(bytes.data(), 64'000);
  std::vector<int> counts(256, 0);
  for (size_t i = 0; i < 64'000; ++i) ++counts[bytes[i]];
  for (const int count : counts) CHECK(count == Approx(250).margin(90));
  for (size_t i = 64'000; i < bytes.size(); ++i) CHECK(bytes[i] == 0xAB);
}

}  // namespace

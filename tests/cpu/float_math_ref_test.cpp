// SPDX-License-Identifier: Apache-2.0
//
// The polynomial exp against the double precision one, and its edges.

#include "cpu/float_math_ref.h"

#include <cmath>
#include <limits>

#include "tests/support/catch.h"

using colibri::cpu::exp_ref;
using colibri::cpu::sum_lanes_ref;

TEST_CASE("exp is within 2 ulp of the exact value") {
  double worst = 0.0;
  for (double at = -87.33; at <= 88.72; at += 0.0003) {
    const float x = static_cast<float>(at);
    const double exact = std::exp(static_cast<double>(x));
    int exponent = 0;
    std::frexp(exact, &exponent);
    const double ulp = std::ldexp(1.0, exponent - 24);
    worst = std::max(worst, std::fabs(exp_ref(x) - exact) / ulp);
  }
  CAPTURE(worst);
  REQUIRE(worst < 2.0);
}

TEST_CASE("exp has exact values at its edges") {
  const float infinity = std::numeric_limits<float>::infinity();
  REQUIRE(exp_ref(0.0f) == 1.0f);
  REQUIRE(exp_ref(-0.0f) == 1.0f);
  REQUIRE(exp_ref(-88.0f) == 0.0f);
  REQUIRE(exp_ref(-infinity) == 0.0f);
  REQUIRE(exp_ref(infinity) == infinity);
  REQUIRE(exp_ref(88.73f) == infinity);
  REQUIRE(std::isfinite(exp_ref(88.7228f)));
  REQUIRE(exp_ref(-87.336f) >= std::numeric_limits<float>::min());
  REQUIRE(std::isnan(exp_ref(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("the tree sum adds lanes pairwise") {
  float lanes[16];
  for (int i = 0; i < 16; ++i) lanes[i] = static_cast<float>(1 << i);
  REQUIRE(sum_lanes_ref(lanes) == 65535.0f);
  // 1e8 meets -1e8 first (lane 0 and lane 8), so the small lane survives.
  float order[16] = {1e8f, 1.0f, 0, 0, 0, 0, 0, 0, -1e8f};
  REQUIRE(sum_lanes_ref(order) == 1.0f);
}

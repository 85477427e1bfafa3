// SPDX-License-Identifier: Apache-2.0
//
// Inside the scope arithmetic follows the default mode; outside, the host's mode is as it was.

#include <cfenv>
#include <limits>

#include "lib/base/float_mode.h"
#include "tests/support/catch.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

// Through volatile, so that the compiler computes nothing itself.
float divide(float a, float b) {
  volatile float numerator = a;
  volatile float denominator = b;
  return numerator / denominator;
}

}  // namespace

TEST_CASE("rounding is to nearest inside the scope and the host's again after it") {
  const float nearest = divide(1.0f, 3.0f);
  REQUIRE(std::fesetround(FE_DOWNWARD) == 0);
  const float before = divide(1.0f, 3.0f);
  float inside = 0;
  {
    const colibri::ScopedFloatMode scope;
    inside = divide(1.0f, 3.0f);
  }
  const float after = divide(1.0f, 3.0f);
  const int mode_after = std::fegetround();
  std::fesetround(FE_TONEAREST);
  REQUIRE(before < nearest);
  REQUIRE(inside == nearest);
  REQUIRE(after == before);
  REQUIRE(mode_after == FE_DOWNWARD);
}

#if defined(__x86_64__)
TEST_CASE("subnormals are kept inside the scope although the host flushes them") {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040);  // flush to zero, denormals are zero
  const unsigned host = _mm_getcsr();
  const float smallest = std::numeric_limits<float>::denorm_min();
  const float before = divide(std::numeric_limits<float>::min(), 2.0f);
  float inside = 0;
  float kept = 0;
  {
    const colibri::ScopedFloatMode outer;
    const colibri::ScopedFloatMode inner;
    inside = divide(std::numeric_limits<float>::min(), 2.0f);
    kept = divide(smallest, 1.0f);
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  REQUIRE(before == 0.0f);
  REQUIRE(inside > 0.0f);
  REQUIRE(kept == smallest);
  REQUIRE((after & ~0x3Fu) == (host & ~0x3Fu));
}

TEST_CASE(
    "exceptions that the host unmasked do not strike inside the scope and its flags survive") {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr((saved & ~0x3Fu) & ~0x200u);  // no flags, division by zero unmasked
  const unsigned host = _mm_getcsr();
  float quotient = 0;
  {
    const colibri::ScopedFloatMode scope;
    quotient = divide(1.0f, 0.0f);
  }
  const unsigned after = _mm_getcsr();
  _mm_setcsr(saved);
  REQUIRE(quotient == std::numeric_limits<float>::infinity());
  REQUIRE(after == host);
}
#endif

// SPDX-License-Identifier: Apache-2.0
//
// Tests of lib/capi/guard.h: everything that can be thrown becomes a code and a text.

#include "lib/capi/guard.h"

#include <cfenv>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/catch.h"

using namespace colibri;

namespace {

template <typename Body>
std::pair<colibri_status, std::string> outcome(Body body) {
  colibri_error error = COLIBRI_ERROR_INIT;
  const colibri_status status = guard(&error, body);
  CHECK(error.code == status);
  return {status, error.message};
}

// 1 and a little: 1 when rounded to nearest, more when rounded up.
float inexact_sum() {
  const volatile float one = 1.0f;
  const volatile float little = 1e-10f;
  return one + little;
}

using Outcome = std::pair<colibri_status, std::string>;

}  // namespace

TEST_CASE("a body that returns is a success") {
  CHECK(outcome([] {}) == Outcome(COLIBRI_OK, ""));
  CHECK(outcome([] { return Status(); }) == Outcome(COLIBRI_OK, ""));
}

TEST_CASE("a returned failure and a thrown one arrive alike") {
  const Status failure = make_status(StatusCode::kIo, "disk %d", 7);
  CHECK(outcome([&] { return failure; }) == Outcome(COLIBRI_E_IO, "disk 7"));
  CHECK(outcome([&] { throw Error(failure); }) == Outcome(COLIBRI_E_IO, "disk 7"));
}

TEST_CASE("memory that runs out and unknown exceptions have codes of their own") {
  CHECK(outcome([] { throw std::bad_alloc(); }).first == COLIBRI_E_MEMORY);
  CHECK(outcome([] { throw std::bad_array_new_length(); }).first == COLIBRI_E_MEMORY);
  CHECK(outcome([] { throw std::runtime_error("odd"); }) ==
        Outcome(COLIBRI_E_INTERNAL, "unexpected failure: odd"));
  CHECK(outcome([] { throw 5; }).first == COLIBRI_E_INTERNAL);
}

TEST_CASE("a computing body sees round-to-nearest and the host's mode comes back") {
  const float nearest = inexact_sum();
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  float inside = 0;
  const colibri_status status = guard_computing(nullptr, [&] { inside = inexact_sum(); });
  const float after = inexact_sum();
  std::fesetround(FE_TONEAREST);
  CHECK(status == COLIBRI_OK);
  CHECK(inside == nearest);
  CHECK(after > nearest);
}

TEST_CASE("the host's mode comes back behind a failure, too") {
  const float nearest = inexact_sum();
  REQUIRE(std::fesetround(FE_UPWARD) == 0);
  const colibri_status status = guard_computing(nullptr, [] { throw std::bad_alloc(); });
  const float after = inexact_sum();
  std::fesetround(FE_TONEAREST);
  CHECK(status == COLIBRI_E_MEMORY);
  CHECK(after > nearest);
}

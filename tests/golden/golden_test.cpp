// SPDX-License-Identifier: Apache-2.0
//
// Float mode against the reference implementation: logits within the stated tolerance, every
// discrete choice equal.

#include "tests/golden/golden_checks.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

void check_every_case(void (*check)(const GoldenCase &golden, const std::string &path)) {
  for (const std::string &name : golden_case_names()) {
    const GoldenCase golden(name);
    check(golden, golden.path());
  }
}

}  // namespace

TEST_CASE("float logits, routes and selections equal the reference") {
  check_every_case(check_passes);
}

TEST_CASE("the residual stream equals the reference after every layer") {
  check_every_case(check_hidden);
}

TEST_CASE("greedy continuations equal the reference") {
  check_every_case(check_continuations);
}

TEST_CASE("without an option the latent norms use the epsilon of the other norms") {
  check_every_case(check_latent_eps);
}

}  // namespace colibri::test

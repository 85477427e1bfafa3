// SPDX-License-Identifier: Apache-2.0
//
// Automatic budgets of lib/capi/open_options.h, for machines that this one is not.

#include "lib/capi/open_options.h"
#include "tests/support/catch.h"

using namespace colibri;
using Catch::Matchers::Contains;

TEST_CASE("an explicit budget is taken as it is and needs no probe") {
  const Budget budget = resolve_budget(12345, {0, 0, "nothing"});
  CHECK(budget.bytes == 12345);
  CHECK(budget.origin == "option");
}

TEST_CASE("an automatic budget is nine tenths of what is left and says what decided") {
  const Budget budget = resolve_budget(0, {1000, 4000, "cgroup /x memory.max"});
  CHECK(budget.bytes == 900);
  CHECK(budget.origin == "cgroup /x memory.max");
  CHECK(resolve_budget(0, {UINT64_MAX, UINT64_MAX, "x"}).bytes == UINT64_MAX / 10 * 9);
}

TEST_CASE("a machine without any memory left gives a budget of 0, not an unlimited one") {
  CHECK(resolve_budget(0, {0, 4000, "MemAvailable"}).bytes == 0);
}

TEST_CASE("if every probe failed, the caller is asked for a budget") {
  try {
    resolve_budget(0, {0, 0, "no probe answered"});
    FAIL("no error");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kBudget);
    CHECK_THAT(error.what(), Contains("ram_budget_bytes") && Contains("no probe answered"));
  }
}

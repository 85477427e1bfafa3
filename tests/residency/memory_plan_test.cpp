// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/memory_plan.h"

#include <string>

#include "lib/base/status.h"
#include "tests/support/catch.h"

namespace {

using colibri::MemoryPlan;
using colibri::PlanInputs;

PlanInputs small_inputs(uint64_t budget_bytes) {
  PlanInputs inputs;
  inputs.budget_bytes = budget_bytes;
  inputs.budget_origin = "option";
  inputs.dense_bytes = 1000;
  inputs.kv_bytes = 200;
  inputs.workspace_bytes = 30;
  inputs.staging_bytes = 4;
  inputs.overhead_bytes = 5;
  inputs.largest_expert_bytes = 50;
  inputs.all_experts_bytes = 640;
  inputs.n_experts = 16;
  inputs.minimum_resident_experts = 8;
  return inputs;
}

}  // namespace

TEST_CASE("fixed parts come first and experts get what is left") {
  const MemoryPlan plan = make_memory_plan(small_inputs(1700));
  REQUIRE(plan.fixed_bytes == 1239);
  REQUIRE(plan.expert_bytes == 461);
  REQUIRE(plan.total_bytes == 1700);
  REQUIRE(plan.minimum_bytes == 1239 + 8 * 50);
  REQUIRE(plan.full_bytes == 1239 + 640);
  REQUIRE(is_feasible(plan));
}

TEST_CASE("more KV leaves fewer experts, byte for byte") {
  PlanInputs inputs = small_inputs(1700);
  inputs.kv_bytes += 61;
  REQUIRE(make_memory_plan(inputs).expert_bytes == 400);
}

TEST_CASE("a budget above everything is not used up") {
  const MemoryPlan plan = make_memory_plan(small_inputs(1'000'000));
  REQUIRE(plan.expert_bytes == 640);
  REQUIRE(plan.total_bytes == plan.full_bytes);
}

TEST_CASE("the minimum is exact: one byte less is refused") {
  REQUIRE(is_feasible(make_memory_plan(small_inputs(1639))));
  REQUIRE_FALSE(is_feasible(make_memory_plan(small_inputs(1638))));
  REQUIRE(make_memory_plan(small_inputs(1)).expert_bytes == 0);
}

TEST_CASE("experts are priced by their real bytes, not all like the largest") {
  PlanInputs inputs = small_inputs(1'000'000);
  inputs.all_experts_bytes = 300;  // 16 experts, one of 50 bytes, the others smaller
  const MemoryPlan plan = make_memory_plan(inputs);
  REQUIRE(plan.full_bytes == 1239 + 300);
  // All experts together are less than eight of the largest: no more than all is ever asked.
  REQUIRE(plan.minimum_bytes == 1239 + 300);
}

TEST_CASE("a step that needs one expert still needs room for the largest") {
  PlanInputs inputs = small_inputs(1700);
  inputs.minimum_resident_experts = 0;
  REQUIRE(make_memory_plan(inputs).minimum_bytes == 1239 + 50);
}

TEST_CASE("a model without routed experts needs its fixed parts alone") {
  PlanInputs inputs = small_inputs(1239);
  inputs.largest_expert_bytes = inputs.all_experts_bytes = inputs.n_experts = 0;
  const MemoryPlan plan = make_memory_plan(inputs);
  REQUIRE(plan.minimum_bytes == 1239);
  REQUIRE(plan.total_bytes == 1239);
  REQUIRE(is_feasible(plan));
}

TEST_CASE("a refusal names budget, minimum and parts") {
  const MemoryPlan plan = make_memory_plan(small_inputs(1300));
  try {
    require_feasible(plan);
    FAIL("a plan below the minimum was accepted");
  } catch (const colibri::Error &error) {
    REQUIRE(error.status().code() == colibri::StatusCode::kBudget);
    const std::string text = error.what();
    for (const char *part : {"1300", "1639", "1000", "200", "30", "400", "option"}) {
      INFO(text << " lacks " << part);
      REQUIRE(text.find(part) != std::string::npos);
    }
  }
  REQUIRE_NOTHROW(require_feasible(make_memory_plan(small_inputs(1639))));
}

TEST_CASE("a refusal of real sizes keeps the budget's origin inside its text") {
  PlanInputs inputs = small_inputs(1'234'567'890'123);
  inputs.dense_bytes = inputs.kv_bytes = inputs.workspace_bytes = 123'456'789'012'345;
  inputs.budget_origin = "MemAvailable";
  try {
    require_feasible(make_memory_plan(inputs));
    FAIL("a plan below the minimum was accepted");
  } catch (const colibri::Error &error) {
    REQUIRE(std::string(error.what()).find("MemAvailable") != std::string::npos);
  }
}

TEST_CASE("absurd sizes saturate and are refused instead of wrapping") {
  for (const uint64_t huge : {UINT64_MAX, UINT64_MAX / 2 + 1, uint64_t{1} << 63}) {
    PlanInputs inputs = small_inputs(uint64_t{1} << 40);
    inputs.kv_bytes = huge;
    inputs.workspace_bytes = huge;
    inputs.largest_expert_bytes = huge;
    inputs.all_experts_bytes = huge;
    const MemoryPlan plan = make_memory_plan(inputs);
    REQUIRE(plan.fixed_bytes == UINT64_MAX);
    REQUIRE(plan.minimum_bytes == UINT64_MAX);
    REQUIRE(plan.full_bytes == UINT64_MAX);
    REQUIRE_FALSE(is_feasible(plan));
  }
}

TEST_CASE("sums above 32 bits are right") {
  PlanInputs inputs = small_inputs(uint64_t{700} << 30);
  inputs.dense_bytes = uint64_t{12} << 30;
  inputs.kv_bytes = uint64_t{7} << 30;
  inputs.largest_expert_bytes = 21'233'664;
  inputs.n_experts = 19'200;
  inputs.all_experts_bytes = 19'200 * inputs.largest_expert_bytes;
  const MemoryPlan plan = make_memory_plan(inputs);
  REQUIRE(plan.fixed_bytes == (uint64_t{19} << 30) + 39);
  REQUIRE(plan.expert_bytes == 407'686'348'800);
}

// SPDX-License-Identifier: Apache-2.0
//
// Sums saturate at 2^64 - 1: an absurd shape then prices itself out of every budget instead of
// wrapping into one.

#include "lib/residency/memory_plan.h"

#include <algorithm>
#include <cinttypes>

#include "lib/base/checked_math.h"
#include "lib/base/status.h"

namespace colibri {
namespace {

// What the experts of one layer step take at the least: K of the largest, but never more than there
// are.
uint64_t least_expert_bytes(const PlanInputs &inputs) noexcept {
  const uint64_t n_experts =
      std::min(std::max<uint64_t>(inputs.minimum_resident_experts, 1), inputs.n_experts);
  return std::min(saturating_multiply(n_experts, inputs.largest_expert_bytes),
                  inputs.all_experts_bytes);
}

}  // namespace

MemoryPlan make_memory_plan(const PlanInputs &inputs) {
  MemoryPlan plan;
  plan.inputs = inputs;
  for (const uint64_t part : {inputs.dense_bytes, inputs.kv_bytes, inputs.workspace_bytes,
                              inputs.staging_bytes, inputs.overhead_bytes}) {
    plan.fixed_bytes = saturating_add(plan.fixed_bytes, part);
  }
  const uint64_t left =
      inputs.budget_bytes > plan.fixed_bytes ? inputs.budget_bytes - plan.fixed_bytes : 0;
  plan.expert_bytes = std::min(left, inputs.all_experts_bytes);
  plan.minimum_bytes = saturating_add(plan.fixed_bytes, least_expert_bytes(inputs));
  plan.total_bytes = saturating_add(plan.fixed_bytes, plan.expert_bytes);
  plan.full_bytes = saturating_add(plan.fixed_bytes, inputs.all_experts_bytes);
  return plan;
}

bool is_feasible(const MemoryPlan &plan) noexcept {
  return plan.inputs.budget_bytes >= plan.minimum_bytes;
}

void require_feasible(const MemoryPlan &plan) {
  if (is_feasible(plan)) return;
  const PlanInputs &inputs = plan.inputs;
  throw_error(StatusCode::kBudget,
              "budget %" PRIu64 " bytes; needs %" PRIu64 ": dense %" PRIu64 ", kv %" PRIu64
              ", workspace %" PRIu64 ", staging %" PRIu64 ", other %" PRIu64 ", experts %" PRIu64
              "; raise it or use less context or fewer slots (budget from %s)",
              inputs.budget_bytes, plan.minimum_bytes, inputs.dense_bytes, inputs.kv_bytes,
              inputs.workspace_bytes, inputs.staging_bytes, inputs.overhead_bytes,
              least_expert_bytes(inputs), inputs.budget_origin.c_str());
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The one capacity decision: fixed parts first, experts with what is left. Pure arithmetic on
// numbers that others supply; nothing is probed or allocated here.

#pragma once

#include <cstdint>
#include <string>

namespace colibri {

struct PlanInputs {
  uint64_t budget_bytes = 0;     // of everything below together; already resolved, never 0
  std::string budget_origin;     // "option", or what decided an automatic budget
  uint64_t dense_bytes = 0;      // packed dense weights, norms, tables
  uint64_t kv_bytes = 0;         // all slots
  uint64_t workspace_bytes = 0;  // all engines: activations, logits, scratch
  uint64_t staging_bytes = 0;    // read buffers of the loader threads
  uint64_t overhead_bytes = 0;   // tokenizer, tables, allocator slack: an honest upper estimate
  uint64_t largest_expert_bytes = 0;      // packed
  uint64_t all_experts_bytes = 0;         // packed, every routed expert
  uint64_t n_experts = 0;                 // routed experts of all layers
  uint64_t minimum_resident_experts = 0;  // that one layer step needs at once (K)
};

struct MemoryPlan {
  PlanInputs inputs;
  uint64_t fixed_bytes = 0;    // everything but experts
  uint64_t expert_bytes = 0;   // granted to the expert cache: min(what is left, all_experts_bytes)
  uint64_t minimum_bytes = 0;  // least budget with which a model of this shape opens
  uint64_t total_bytes = 0;    // fixed + expert: what the process will use for this model at most
  uint64_t full_bytes = 0;     // fixed + all experts: no disk reads after warm-up from here on
};

// Throws only std::bad_alloc; is_feasible says whether the budget suffices. Sums saturate instead
// of wrapping.
MemoryPlan make_memory_plan(const PlanInputs &inputs);
bool is_feasible(const MemoryPlan &plan) noexcept;
// Throws Error(kBudget) with budget, minimum and the parts when it is not feasible.
void require_feasible(const MemoryPlan &plan);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The capacity decision for one snapshot and one set of options: asks every layer for its price and
// lets memory_plan.h decide. All parts are sums of real sizes but the overhead, which is an upper
// estimate.

#pragma once

#include <cstdint>

#include "lib/backend/backend.h"
#include "lib/capi/open_options.h"
#include "lib/residency/memory_plan.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

struct CapacityPlan {
  MemoryPlan memory;
  uint64_t kv_bytes_per_token = 0;
  uint32_t largest_context_tokens = 0;  // that the budget allows with these slots; 0: none

  // Experts that the granted bytes hold at the least.
  uint64_t n_ram_experts() const noexcept;
};

// `options` with every field resolved; tokenizer_bytes: of the tokenizer.json that will be loaded,
// 0 for none.
CapacityPlan make_capacity_plan(const Snapshot &snapshot, const Backend &backend,
                                const OpenOptions &options, const Budget &budget,
                                uint64_t tokenizer_bytes);

// Throws Error(kBudget) with budget, minimum, parts, and the largest context that fits.
void require_capacity(const CapacityPlan &plan);

}  // namespace colibri

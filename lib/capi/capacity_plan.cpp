// SPDX-License-Identifier: Apache-2.0
//
// Prices. KV and workspace depend on the context; the largest context is found by bisection over
// the same function that prices the plan, so the two cannot disagree.

#include "lib/capi/capacity_plan.h"

#include <algorithm>
#include <cinttypes>

#include "lib/base/checked_math.h"
#include "lib/model/kv_layout.h"
#include "lib/model/rotary.h"
#include "lib/residency/expert_cache.h"
#include "lib/residency/expert_slots.h"

namespace colibri {
namespace {

// Measured with three published tokenizers of 32,000 to 151,643 entries (peak 7.2 to 8.6 times the
// file while it is parsed, 4.2 times kept) and with a snapshot of 37,000 tensors (870 bytes each).
// tests/capi/peak_memory.cpp fails if a plan is too low.
constexpr uint64_t kTokenizerFactor = 9;
constexpr uint64_t kBytesPerTensor = 1024;  // names, spans and hash entries
// Cache entry, policy entry, slot record; and where its matrices lie, which for tensors that hold
// all experts of a layer no tensor of their own pays for.
constexpr uint64_t kBytesPerExpert = 256 + sizeof(ExpertSource);
constexpr uint64_t kBytesPerThread = 64 << 10;  // touched stack
constexpr uint64_t kBytesPerRow = 512;          // status, slot and place of a row of a batch
constexpr uint64_t kBytesPerLogit = 16;         // sampler, per scheduler
constexpr uint64_t kFixedBytes = 2 << 20;       // allocator slack, pools

uint64_t count_experts(const ModelSources &sources) noexcept {
  uint64_t count = 0;
  for (const LayerSources &layer : sources.layers) count += layer.experts.size();
  return count;
}

// Memory besides the parts that are priced exactly: names and tables of the snapshot, the
// tokenizer, bookkeeping of the expert cache and of engines, stacks of threads.
uint64_t estimate_overhead_bytes(const Snapshot &snapshot, const OpenOptions &options,
                                 uint64_t tokenizer_bytes) noexcept {
  uint64_t sum = kFixedBytes;
  sum = saturating_add(sum, saturating_multiply(tokenizer_bytes, kTokenizerFactor));
  sum = saturating_add(sum, saturating_multiply(snapshot.index().size(), kBytesPerTensor));
  sum =
      saturating_add(sum, saturating_multiply(count_experts(snapshot.sources()), kBytesPerExpert));
  const uint64_t engine_bytes =
      options.max_rows * kBytesPerRow + snapshot.config().vocabulary_size * kBytesPerLogit;
  sum = saturating_add(sum, options.n_engines * engine_bytes);
  const uint64_t n_threads = uint64_t{options.n_threads} + options.n_loader_threads;
  return saturating_add(sum, n_threads * kBytesPerThread);
}

// Prices one snapshot with one set of options for any context.
class Pricing {
 public:
  Pricing(const Snapshot &snapshot, const Backend &backend, const OpenOptions &options,
          const Budget &budget, uint64_t tokenizer_bytes)
      : snapshot_(snapshot), backend_(backend), options_(options) {
    const ModelSources &sources = snapshot.sources();
    fixed_.budget_bytes = budget.bytes;
    fixed_.budget_origin = budget.origin;
    fixed_.dense_bytes = Model::dense_bytes(snapshot);
    fixed_.overhead_bytes = estimate_overhead_bytes(snapshot, options, tokenizer_bytes);
    fixed_.n_experts = count_experts(sources);
    if (fixed_.n_experts == 0) return;
    fixed_.staging_bytes = ExpertCache::staging_bytes(sources, options.n_loader_threads);
    fixed_.largest_expert_bytes = ExpertCache::largest_packed_expert_bytes(sources);
    fixed_.all_experts_bytes = ExpertCache::all_packed_experts_bytes(sources);
    if (fixed_.largest_expert_bytes >= ExpertSlots::kLeastHugeBytes) {
      fixed_.overhead_bytes = saturating_add(fixed_.overhead_bytes, ExpertSlots::kHugeSlack);
    }
    fixed_.minimum_resident_experts = snapshot.config().n_experts_per_token;
  }

  MemoryPlan price(uint32_t context_tokens) const {
    PlanInputs inputs = fixed_;
    const KvLayout layout(snapshot_.config(),
                          {context_tokens, options_.max_rows, options_.kv_type});
    inputs.kv_bytes = saturating_multiply(layout.slot_bytes(), options_.n_slots);
    inputs.workspace_bytes =
        saturating_multiply(Model::workspace_bytes(snapshot_, backend_, options_.max_rows,
                                                   options_.max_logits_rows, context_tokens),
                            options_.n_engines);
    const uint64_t token_list_bytes = uint64_t{context_tokens} * sizeof(int32_t);
    inputs.overhead_bytes =
        saturating_add(inputs.overhead_bytes, token_list_bytes * options_.n_slots);
    return make_memory_plan(inputs);
  }

  uint32_t find_largest_context() const {
    uint32_t fitting = 0;
    uint32_t end = std::min(snapshot_.config().max_positions,
                            kMaxRotaryPositions);  // nothing above is asked for
    while (fitting < end) {
      const uint32_t middle = end - (end - fitting) / 2;
      if (is_feasible(price(middle))) {
        fitting = middle;
      } else {
        end = middle - 1;
      }
    }
    return fitting;
  }

 private:
  const Snapshot &snapshot_;
  const Backend &backend_;
  const OpenOptions &options_;
  PlanInputs fixed_;
};

}  // namespace

uint64_t CapacityPlan::n_ram_experts() const noexcept {
  const PlanInputs &inputs = memory.inputs;
  if (memory.expert_bytes >= inputs.all_experts_bytes) return inputs.n_experts;
  return memory.expert_bytes / std::max<uint64_t>(inputs.largest_expert_bytes, 1);
}

CapacityPlan make_capacity_plan(const Snapshot &snapshot, const Backend &backend,
                                const OpenOptions &options, const Budget &budget,
                                uint64_t tokenizer_bytes) {
  const Pricing pricing(snapshot, backend, options, budget, tokenizer_bytes);
  CapacityPlan plan;
  plan.memory = pricing.price(options.context_tokens);
  plan.kv_bytes_per_token =
      KvLayout(snapshot.config(), {1, options.max_rows, options.kv_type}).bytes_per_position();
  plan.largest_context_tokens = pricing.find_largest_context();
  return plan;
}

void require_capacity(const CapacityPlan &plan) {
  if (is_feasible(plan.memory)) return;
  const PlanInputs &inputs = plan.memory.inputs;
  throw_error(StatusCode::kBudget,
              "budget %" PRIu64 " bytes (%.40s) is below the minimum %" PRIu64
              "; largest context_tokens that fits: %u; dense %" PRIu64 ", kv %" PRIu64
              ", workspace %" PRIu64 ", staging %" PRIu64 ", overhead %" PRIu64,
              inputs.budget_bytes, inputs.budget_origin.c_str(), plan.memory.minimum_bytes,
              plan.largest_context_tokens, inputs.dense_bytes, inputs.kv_bytes,
              inputs.workspace_bytes, inputs.staging_bytes, inputs.overhead_bytes);
}

}  // namespace colibri

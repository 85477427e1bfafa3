// SPDX-License-Identifier: Apache-2.0
//
// Prices. KV and workspace depend on the context; the largest context is found by bisection over
// the same function that prices the plan, so the two cannot disagree.

#include "lib/capi/capacity_plan.h"

#include <algorithm>
#include <cinttypes>

#include "lib/model/kv_layout.h"
#include "lib/residency/expert_cache.h"

namespace colibri {
namespace {

// Measured: see tests/capi/memory_test.cpp, which fails if the sum is too low.
constexpr uint64_t kTokenizerFactor = 12;       // of the file: vocabulary, merges, and parsing them
constexpr uint64_t kBytesPerTensor = 1024;      // names, spans and hash entries
constexpr uint64_t kBytesPerExpert = 256;       // cache entry, policy entry, slot record
constexpr uint64_t kBytesPerThread = 64 << 10;  // touched stack
constexpr uint64_t kBytesPerRow = 512;          // status, slot and place of a row of a batch
constexpr uint64_t kBytesPerLogit = 16;         // sampler, per scheduler
constexpr uint64_t kFixedBytes = 2 << 20;       // allocator slack, pools

uint64_t saturating_add(uint64_t a, uint64_t b) noexcept {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t saturating_multiply(uint64_t a, uint64_t b) noexcept {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t count_experts(const ModelSources &sources) noexcept {
  uint64_t count = 0;
  for (const LayerSources &layer : sources.layers) count += layer.experts.size();
  return count;
}

// The parts that grow with the context.
void price_context(const Snapshot &snapshot, const Backend &backend, const OpenOptions &options,
                   uint32_t context_tokens, PlanInputs *inputs) {
  const KvLayout layout(snapshot.config(), context_tokens);
  inputs->kv_bytes = saturating_multiply(layout.slot_bytes(), options.n_slots);
  inputs->workspace_bytes =
      saturating_multiply(Model::workspace_bytes(snapshot, backend, options.max_rows,
                                                 options.max_logits_rows, context_tokens),
                          options.n_engines);
}

uint32_t find_largest_context(const Snapshot &snapshot, const Backend &backend,
                              const OpenOptions &options, PlanInputs inputs) {
  const auto fits = [&](uint32_t context_tokens) {
    price_context(snapshot, backend, options, context_tokens, &inputs);
    return is_feasible(make_memory_plan(inputs));
  };
  uint32_t fitting = 0;
  uint32_t end = snapshot.config().max_positions;  // nothing above is asked for
  while (fitting < end) {
    const uint32_t middle = end - (end - fitting) / 2;
    if (fits(middle)) {
      fitting = middle;
    } else {
      end = middle - 1;
    }
  }
  return fitting;
}

}  // namespace

uint64_t CapacityPlan::n_ram_experts() const noexcept {
  const PlanInputs &inputs = memory.inputs;
  if (memory.expert_bytes >= inputs.all_experts_bytes) return inputs.n_experts;
  return memory.expert_bytes / std::max<uint64_t>(inputs.largest_expert_bytes, 1);
}

uint64_t estimate_overhead_bytes(const Snapshot &snapshot, const OpenOptions &options,
                                 uint64_t tokenizer_bytes) noexcept {
  uint64_t sum = kFixedBytes;
  sum = saturating_add(sum, saturating_multiply(tokenizer_bytes, kTokenizerFactor));
  sum = saturating_add(sum, saturating_multiply(snapshot.index().size(), kBytesPerTensor));
  sum =
      saturating_add(sum, saturating_multiply(count_experts(snapshot.sources()), kBytesPerExpert));
  sum = saturating_add(sum, uint64_t{options.n_slots} * options.context_tokens * sizeof(int32_t));
  const uint64_t engine_bytes =
      options.max_rows * kBytesPerRow + snapshot.config().vocabulary_size * kBytesPerLogit;
  sum = saturating_add(sum, options.n_engines * engine_bytes);
  const uint64_t n_threads = uint64_t{options.n_threads} + options.n_loader_threads;
  return saturating_add(sum, n_threads * kBytesPerThread);
}

CapacityPlan make_capacity_plan(const Snapshot &snapshot, const Backend &backend,
                                const OpenOptions &options, const Budget &budget,
                                uint64_t tokenizer_bytes) {
  const ModelSources &sources = snapshot.sources();
  PlanInputs inputs;
  inputs.budget_bytes = budget.bytes;
  inputs.budget_origin = budget.origin;
  inputs.dense_bytes = Model::dense_bytes(snapshot);
  inputs.n_experts = count_experts(sources);
  if (inputs.n_experts != 0) {
    inputs.staging_bytes = ExpertCache::staging_bytes(sources, options.n_loader_threads);
    inputs.largest_expert_bytes = ExpertCache::largest_packed_expert_bytes(sources);
    inputs.all_experts_bytes = ExpertCache::all_packed_experts_bytes(sources);
    inputs.minimum_resident_experts = snapshot.config().n_experts_per_token;
  }
  inputs.overhead_bytes = estimate_overhead_bytes(snapshot, options, tokenizer_bytes);
  price_context(snapshot, backend, options, options.context_tokens, &inputs);

  CapacityPlan plan;
  plan.memory = make_memory_plan(inputs);
  plan.kv_bytes_per_token = KvLayout(snapshot.config(), 1).bytes_per_position();
  plan.largest_context_tokens = find_largest_context(snapshot, backend, options, inputs);
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

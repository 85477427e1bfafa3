// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/stats.h.

#include <cstring>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

colibri_model_stats model_stats(const colibri_model *model) {
  colibri_model_stats stats{};
  stats.struct_size = sizeof(stats);
  REQUIRE(colibri_model_get_stats(model, &stats, nullptr) == COLIBRI_OK);
  return stats;
}

colibri_scheduler_stats scheduler_stats(const colibri_scheduler *scheduler) {
  colibri_scheduler_stats stats{};
  stats.struct_size = sizeof(stats);
  REQUIRE(colibri_scheduler_get_stats(scheduler, &stats, nullptr) == COLIBRI_OK);
  return stats;
}

}  // namespace

TEST_CASE("a model counts slots, engines, passes, rows and experts") {
  const Model model = open_tiny();
  colibri_model_stats stats = model_stats(model.get());
  CHECK(stats.struct_size == sizeof(stats));
  CHECK(stats.n_slots_in_use == 0);
  CHECK(stats.n_engines_in_use == 0);
  CHECK(stats.n_passes == 0);
  CHECK(stats.expert_budget_bytes > 0);
  {
    const Slot slot = make_slot(model.get());
    const Batch batch = make_batch(model.get());
    decode(batch.get(), slot.get(), {1, 2, 3, 4});
    decode(batch.get(), slot.get(), {5});
    stats = model_stats(model.get());
    CHECK(stats.n_slots_in_use == 1);
    CHECK(stats.n_engines_in_use == 1);
  }
  stats = model_stats(model.get());
  CHECK(stats.n_slots_in_use == 0);
  CHECK(stats.n_engines_in_use == 0);
  CHECK(stats.n_passes == 2);
  CHECK(stats.n_rows == 5);
  CHECK(stats.expert_reads > 0);
  CHECK(stats.expert_misses >= stats.expert_reads);
  CHECK(stats.read_bytes > 0);
  CHECK(stats.resident_experts == stats.expert_reads - stats.expert_evictions);
  CHECK(stats.resident_expert_bytes <= stats.expert_budget_bytes);
  CHECK(stats.read_failures == 0);
}

TEST_CASE("a model counts what its passes touch, an expert once for all rows of a pass") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  CHECK(model_stats(model.get()).dense_bytes_touched == 0);
  decode(batch.get(), slot.get(), {1, 2, 3, 4, 5, 6, 7, 8});
  const colibri_model_stats prompt = model_stats(model.get());
  decode(batch.get(), slot.get(), {9});
  const colibri_model_stats after = model_stats(model.get());
  // 4 experts per token of at least 1 MoE layer; a decoded row has experts for itself.
  const uint64_t n_experts = after.n_experts_touched - prompt.n_experts_touched;
  CHECK(n_experts % 4 == 0);
  CHECK(n_experts == after.n_expert_rows - prompt.n_expert_rows);
  CHECK(prompt.n_expert_rows == 8 * n_experts);
  CHECK(prompt.n_experts_touched < prompt.n_expert_rows);
  // All experts of this model have one size.
  const uint64_t expert_bytes = after.expert_bytes_touched / after.n_experts_touched;
  CHECK(prompt.expert_bytes_touched == expert_bytes * prompt.n_experts_touched);
  CHECK(after.expert_bytes_touched == expert_bytes * after.n_experts_touched);
  CHECK(prompt.dense_bytes_touched > 0);
  CHECK(after.dense_bytes_touched > prompt.dense_bytes_touched);
  // Row p attends to p + 1 positions: 36 of the prompt, then 9.
  CHECK((after.kv_bytes_touched - prompt.kv_bytes_touched) * 36 == prompt.kv_bytes_touched * 9);
  CHECK(after.n_integer_macs > prompt.n_integer_macs);
  // Rows of experts all have the same multiply-adds.
  CHECK(prompt.n_expert_macs > 0);
  CHECK(prompt.n_expert_macs < prompt.n_integer_macs);
  CHECK((after.n_expert_macs - prompt.n_expert_macs) * 8 == prompt.n_expert_macs);
}

TEST_CASE("a model counts the time that routed experts take") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  CHECK(model_stats(model.get()).expert_ns == 0);
  decode(batch.get(), slot.get(), {1, 2, 3, 4, 5, 6, 7, 8});
  const uint64_t of_prompt = model_stats(model.get()).expert_ns;
  CHECK(of_prompt > 0);
  decode(batch.get(), slot.get(), {9});
  CHECK(model_stats(model.get()).expert_ns > of_prompt);
}

TEST_CASE("a model counts the time of its threads in shared work") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  decode(batch.get(), slot.get(), {1, 2, 3, 4, 5, 6, 7, 8});
  const colibri_model_stats stats = model_stats(model.get());
  CHECK(stats.n_compute_regions > 0);
  CHECK(stats.compute_region_ns > 0);
  CHECK(stats.compute_busy_ns > 0);
  // Two threads; a clock that is read twice may be one tick off for each.
  CHECK(stats.compute_busy_ns <= 2 * stats.compute_region_ns + 2 * stats.n_compute_regions);
  decode(batch.get(), slot.get(), {9});
  CHECK(model_stats(model.get()).n_compute_regions > stats.n_compute_regions);
}

TEST_CASE("a caller of the first version gets the counters of the first version") {
  const Model model = open_tiny();
  colibri_model_stats stats{};
  std::memset(&stats, 0xC5, sizeof stats);
  stats.struct_size = 112;
  REQUIRE(colibri_model_get_stats(model.get(), &stats, nullptr) == COLIBRI_OK);
  CHECK(stats.struct_size == 112);
  CHECK(stats.n_rows == 0);
  CHECK(stats.dense_bytes_touched == 0xC5C5C5C5C5C5C5C5u);
}

TEST_CASE("passes of schedulers and batches count together") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  generate(scheduler.get(), {1, 2, 3}, 3);
  const colibri_scheduler_stats stats = scheduler_stats(scheduler.get());
  CHECK(model_stats(model.get()).n_passes == stats.n_steps);
  CHECK(model_stats(model.get()).n_rows == stats.n_prefill_rows + stats.n_decode_rows);
}

TEST_CASE("the counters of a scheduler add up, refusals apart") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> prompt = {1, 2, 3};
  generate(scheduler.get(), prompt, 2);
  submit(scheduler.get(), request_of(prompt, 5));
  const colibri_request_id cancelled = submit(scheduler.get(), request_of(prompt, 5));
  CHECK(colibri_scheduler_cancel(scheduler.get(), cancelled, nullptr) == COLIBRI_OK);
  CHECK(colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, nullptr, nullptr) ==
        COLIBRI_OK);
  const std::vector<int32_t> too_long(1000, 1);
  const colibri_request_options refused = request_of(too_long, 1);
  colibri_request_id request = 0;
  CHECK(colibri_scheduler_submit(scheduler.get(), &refused, &request, nullptr, nullptr) ==
        COLIBRI_E_CONTEXT);
  const colibri_scheduler_stats stats = scheduler_stats(scheduler.get());
  CHECK(stats.n_submitted == 3);
  CHECK(stats.n_rejected == 1);
  CHECK(stats.n_length == 1);
  CHECK(stats.n_cancelled == 1);
  CHECK(stats.n_active == 1);
  CHECK(stats.n_submitted == stats.n_finished + stats.n_length + stats.n_stopped +
                                 stats.n_cancelled + stats.n_failed + stats.n_active +
                                 stats.n_queued);
  CHECK(stats.n_tokens >= 2);
}

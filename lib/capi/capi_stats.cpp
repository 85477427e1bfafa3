// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/stats.h: counters in their public form.

#include "colibri/stats.h"

#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/sized_struct.h"
#include "lib/capi/stats_reader.h"

namespace colibri {
namespace {

colibri_scheduler_stats to_public(const SchedulerStats &stats) noexcept {
  colibri_scheduler_stats result{};
  result.n_active = stats.n_active;
  result.n_queued = stats.n_queued;
  result.n_submitted = stats.n_submitted;
  result.n_rejected = stats.n_rejected;
  result.n_finished = stats.n_finished;
  result.n_length = stats.n_length;
  result.n_stopped = stats.n_stopped;
  result.n_cancelled = stats.n_cancelled;
  result.n_failed = stats.n_failed;
  result.n_steps = stats.n_steps;
  result.n_prefill_rows = stats.n_prefill_rows;
  result.n_decode_rows = stats.n_decode_rows;
  result.n_reused_positions = stats.n_reused_positions;
  result.n_tokens = stats.n_tokens;
  return result;
}

}  // namespace

colibri_model_stats read_stats(const colibri_model &model) noexcept {
  const ExpertCacheStats experts = model.open.expert_stats();
  const PassCounters passes = model.open.model().counters();
  const ThreadPool::Counters threads = model.open.planned().threads().counters();
  colibri_model_stats stats{};
  stats.n_slots_in_use = model.open.pool().n_taken();
  stats.n_engines_in_use = model.n_engines;
  stats.largest_queue_depth = static_cast<uint32_t>(experts.largest_queue_depth);
  stats.expert_hits = experts.hits;
  stats.expert_misses = experts.misses;
  stats.expert_reads = experts.reads;
  stats.read_bytes = experts.read_bytes;
  stats.read_failures = experts.read_failures;
  stats.expert_evictions = experts.evictions;
  stats.resident_experts = experts.resident_experts;
  stats.resident_expert_bytes = experts.resident_bytes;
  stats.expert_budget_bytes = experts.budget_bytes;
  stats.expert_wait_ns = static_cast<uint64_t>(experts.wait_seconds * 1e9);
  stats.n_passes = model.n_passes;
  stats.n_rows = model.n_rows;
  stats.dense_bytes_touched = passes.dense_bytes;
  stats.expert_bytes_touched = passes.expert_bytes;
  stats.kv_bytes_touched = passes.kv_bytes;
  stats.n_experts_touched = passes.n_experts;
  stats.n_expert_rows = passes.n_expert_rows;
  stats.n_integer_macs = passes.n_integer_macs;
  stats.n_compute_regions = threads.n_regions;
  stats.compute_region_ns = threads.region_ns;
  stats.compute_busy_ns = threads.busy_ns;
  stats.n_expert_macs = passes.n_expert_macs;
  stats.expert_ns = passes.expert_ns;
  return stats;
}

}  // namespace colibri

colibri_status colibri_model_get_stats(const colibri_model *model, colibri_model_stats *stats,
                                       colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_model> use(model, "model");
    const uint32_t out_bytes = colibri::check_result(stats, "stats");
    colibri::write_result(colibri::read_stats(*use), out_bytes, stats);
  });
}

colibri_status colibri_scheduler_get_stats(const colibri_scheduler *scheduler,
                                           colibri_scheduler_stats *stats, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_scheduler> use(scheduler, "scheduler");
    const uint32_t out_bytes = colibri::check_result(stats, "stats");
    colibri_scheduler_stats result = colibri::to_public(use->scheduler.stats());
    result.n_rejected += use->n_rejected;
    colibri::write_result(result, out_bytes, stats);
  });
}

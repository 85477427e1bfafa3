// SPDX-License-Identifier: Apache-2.0
//
// Timed steps of a model and the read bandwidth that they are held against.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "examples/colibri/bench.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kReadBytes = 256ull << 20;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Ids that differ from slot to slot from the first one on.
std::vector<int32_t> make_prompt(uint32_t n_ids, uint32_t slot, uint32_t n_token_ids) {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < n_ids; ++i) {
    ids.push_back(static_cast<int32_t>((i * 7919 + (slot + 1) * 104729ull) % n_token_ids));
  }
  return ids;
}

void drop_events(colibri_scheduler *scheduler) {
  std::array<colibri_event, 64> events;
  size_t n_events = 0;
  do {
    call(colibri_scheduler_next_events, scheduler, events.data(), sizeof events[0], events.size(),
         &n_events);
    for (size_t i = 0; i < n_events; ++i) {
      if (events[i].finish == COLIBRI_FINISH_FAILED) throw std::runtime_error(events[i].message);
    }
  } while (n_events == events.size());
}

// Adds the growth of every counter that is shown.
void add_counts(const colibri_model_stats &before, const colibri_model_stats &after,
                colibri_model_stats *total) {
  for (uint64_t colibri_model_stats::*field :
       {&colibri_model_stats::expert_hits, &colibri_model_stats::expert_misses,
        &colibri_model_stats::read_bytes, &colibri_model_stats::dense_bytes_touched,
        &colibri_model_stats::expert_bytes_touched, &colibri_model_stats::kv_bytes_touched,
        &colibri_model_stats::n_experts_touched, &colibri_model_stats::n_expert_rows,
        &colibri_model_stats::n_integer_macs, &colibri_model_stats::compute_region_ns,
        &colibri_model_stats::compute_busy_ns, &colibri_model_stats::n_expert_macs,
        &colibri_model_stats::expert_ns}) {
    total->*field += after.*field - before.*field;
  }
}

// Effective number of computing threads under these options.
uint32_t planned_threads(const ModelFlags &flags, const colibri_model_options &options) {
  auto plan = sized<colibri_plan>();
  call(colibri_model_plan, model_path(flags).c_str(), &options, &plan);
  return plan.n_threads;
}

}  // namespace

double TimedSteps::seconds() const {
  return std::accumulate(step_seconds.begin(), step_seconds.end(), 0.0);
}

double TimedSteps::rows_per_second() const {
  return n_rows > 0 ? static_cast<double>(n_rows) / seconds() : 0;
}

double TimedSteps::step_percentile(double share) const {
  if (step_seconds.empty()) return 0;
  std::vector<double> sorted = step_seconds;
  std::sort(sorted.begin(), sorted.end());
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

double TimedSteps::per_step(uint64_t count) const {
  return n_steps() > 0 ? static_cast<double>(count) / static_cast<double>(n_steps()) : 0;
}

double TimedSteps::bytes_per_step() const {
  return per_step(counts.dense_bytes_touched + counts.expert_bytes_touched +
                  counts.kv_bytes_touched);
}

double TimedSteps::busy_share(uint32_t n_threads) const {
  const double time = static_cast<double>(counts.compute_region_ns) * n_threads;
  return time > 0 ? static_cast<double>(counts.compute_busy_ns) / time : kNone;
}

double TimedSteps::region_share() const {
  const double time = static_cast<double>(counts.compute_region_ns) * 1e-9;
  return time > 0 ? time / seconds() : kNone;
}

colibri_step_result run_step(colibri_model *model, colibri_scheduler *scheduler,
                             TimedSteps *steps) {
  if (is_interrupted()) throw Interrupted();
  const colibri_model_stats before = read_stats(model);
  auto step = sized<colibri_step_result>();
  const Clock::time_point start = Clock::now();
  call(colibri_scheduler_step, scheduler, COLIBRI_STEP_NOWAIT, &step);
  drop_events(scheduler);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (steps == nullptr || step.n_rows == 0) return step;
  steps->n_rows += step.n_rows;
  steps->step_seconds.push_back(seconds);
  add_counts(before, read_stats(model), &steps->counts);
  return step;
}

colibri_request_id submit_prompt(colibri_model *model, colibri_scheduler *scheduler, uint32_t slot,
                                 uint32_t n_ids, uint32_t max_tokens) {
  const std::vector<int32_t> prompt = make_prompt(n_ids, slot, read_facts(model).n_token_ids);
  colibri_request_options options;
  colibri_request_options_init(&options, sizeof options);
  options.prompt_ids = prompt.data();
  options.n_prompt_ids = prompt.size();
  options.max_tokens = max_tokens;
  options.ignore_model_stops = 1;
  colibri_request_id request = 0;
  call(colibri_scheduler_submit, scheduler, &options, &request, nullptr);
  return request;
}

SchedulerPtr make_scheduler(colibri_model *model, uint32_t n_slots) {
  colibri_scheduler_options options;
  colibri_scheduler_options_init(&options, sizeof options);
  options.n_slots = n_slots;
  colibri_scheduler *created = nullptr;
  call(colibri_scheduler_create, model, &options, &created);
  return SchedulerPtr(created);
}

double measure_read_gbps(uint32_t n_threads) {
  if (is_interrupted()) throw Interrupted();
  double read_gbps = 0;
  call(colibri_measure_read_bandwidth, n_threads, kReadBytes, &read_gbps);
  return read_gbps;
}

BenchModel::BenchModel(const ModelFlags &flags, const colibri_model_options &options)
    : n_threads_(planned_threads(flags, options)) {
  print_note("measuring takes a while; the machine should have nothing else to do");
  model_ = open_model(flags, options);
  const colibri_model_facts facts = read_facts(model_.get());
  model_type_ = facts.model_type;
  kernel_set_ = facts.kernel_set;
  title_ =
      model_type_ + ", kernels " + kernel_set_ + ", threads " + std::to_string(n_threads_) + "\n";
}

void BenchModel::write_facts(JsonOutput *json) const {
  json->member("model_type", model_type_).member("kernel_set", kernel_set_);
  json->member("threads", uint64_t{n_threads_});
}

}  // namespace colibri::command

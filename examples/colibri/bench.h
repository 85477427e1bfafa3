// SPDX-License-Identifier: Apache-2.0
//
// The measurements of colibri bench, and what they share: timed steps of a model, and the bounds
// that they are held against, measured in the same run.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"

namespace colibri::command {

// Each adds its subcommand to `bench`.
void add_bench_kernels(CLI::App &bench, Run *run);
void add_bench_decode(CLI::App &bench, Run *run);
void add_bench_prefill(CLI::App &bench, Run *run);
void add_bench_synth(CLI::App &bench, Run *run);

// Steps of one kind, each timed, and what the model counted meanwhile.
struct TimedSteps {
  uint64_t n_rows = 0;
  std::vector<double> step_seconds;
  // Decoding: what the same threads read between the steps, the median, and the median over groups
  // of steps of how near the group came to it.
  double read_gbps = 0;
  double share_of_byte_bound = 0;
  // Differences from the first step to the last; fields that are no counters are 0.
  colibri_model_stats counts = sized<colibri_model_stats>();

  uint64_t n_steps() const { return step_seconds.size(); }
  double seconds() const;
  double rows_per_second() const;
  // Nearest rank; share in (0, 1].
  double step_percentile(double share) const;
  // `count` for each step, on average.
  double per_step(uint64_t count) const;
  double bytes_per_step() const;
  // Of the steps' time, the part in which threads could share work, and of that time of all threads
  // the part in which they worked. NaN for one thread, which shares nothing.
  double region_share() const;
  double busy_share(uint32_t n_threads) const;
};

// Runs a step, takes its events, and adds it to *steps unless that is NULL. Throws if a request
// failed, or on Ctrl-C.
colibri_step_result run_step(colibri_model *model, colibri_scheduler *scheduler, TimedSteps *steps);

// Queues a request for exactly max_tokens tokens. Prompts of different slots differ from their
// first id on, so that none takes over another one's positions.
colibri_request_id submit_prompt(colibri_model *model, colibri_scheduler *scheduler, uint32_t slot,
                                 uint32_t n_ids, uint32_t max_tokens);
SchedulerPtr make_scheduler(colibri_model *model, uint32_t n_slots);

// Plain read bandwidth in 1e9 bytes per second, in 256 MiB of its own beside the open model.
double measure_read_gbps(uint32_t n_threads);

class BenchModel {
 public:
  BenchModel(const ModelFlags &flags, const colibri_model_options &options);

  colibri_model *get() const { return model_.get(); }
  // What the model says of itself.
  const std::string &title() const { return title_; }
  void write_facts(JsonOutput *json) const;
  const std::string &kernel_set() const { return kernel_set_; }
  uint32_t n_threads() const { return n_threads_; }

 private:
  ModelPtr model_;
  std::string model_type_, kernel_set_, title_;
  uint32_t n_threads_ = 0;
};

struct DecodePlan {
  std::vector<int32_t> slots = {1, 2, 4, 8};
  uint32_t n_context = 128;
  uint32_t n_tokens = 64;

  uint32_t most_slots() const;
  uint32_t n_positions() const { return n_context + n_tokens + 1; }
};
void add_decode_options(CLI::App &app, DecodePlan *plan);
// One element per number of slots.
std::vector<TimedSteps> measure_decoding(colibri_model *model, const DecodePlan &plan);
void write_decoding(const DecodePlan &plan, std::span<const TimedSteps> results, uint32_t n_threads,
                    JsonOutput *json);
std::string format_decoding(const DecodePlan &plan, std::span<const TimedSteps> results,
                            uint32_t n_threads);

struct PrefillPlan {
  std::vector<int32_t> lengths = {512};

  uint32_t longest() const;
  uint32_t chunk() const;  // rows of one pass by default
};
void add_prefill_option(CLI::App &app, const char *option, PrefillPlan *plan);
// What the INT4 kernel reaches from the cache with 32 rows, in 1e9 multiply-adds per second.
double measure_cache_gmacs(const std::string &kernel_set, uint32_t n_threads);
// One element per length.
std::vector<TimedSteps> measure_prefill(colibri_model *model, const PrefillPlan &plan);
void write_prefill(const PrefillPlan &plan, std::span<const TimedSteps> results, double cache_gmacs,
                   JsonOutput *json);
std::string format_prefill(const PrefillPlan &plan, std::span<const TimedSteps> results,
                           double cache_gmacs);

}  // namespace colibri::command

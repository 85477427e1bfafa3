// SPDX-License-Identifier: Apache-2.0
//
// colibri bench prefill: tokens per second of prompts, against what the INT4 kernel reaches from
// the cache. Two rates of multiply-adds are held against it: that of the routed experts over the
// time of their products, which says how well the kernel is used, and that of all integer products
// over the whole time, where everything else that a pass does counts as lost.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "examples/colibri/bench.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

// Rows of a pass: so many that experts have whole tiles of rows, so few that the activations of
// wide models stay small beside their weights.
constexpr uint32_t kDefaultChunk = 512;
// A prompt is timed this often, or until so much time is spent on it: a short one is over before a
// disturbance of the machine is, a long one outlasts it.
constexpr size_t kMostRuns = 5;
constexpr double kEnoughSeconds = 3;

struct Prefill {
  ModelFlags model;
  PrefillPlan plan;
  bool wants_json = false;
};

// A scheduler of its own for each prompt: nothing is taken over from the one before.
TimedSteps compute_prompt(colibri_model *model, uint32_t n_ids) {
  const SchedulerPtr scheduler = make_scheduler(model, 1);
  submit_prompt(model, scheduler.get(), 0, n_ids, 1);
  TimedSteps steps;
  colibri_step_result step;
  do {
    step = run_step(model, scheduler.get(), &steps);
  } while (step.n_active + step.n_queued > 0);
  return steps;
}

// The run of median length, of an even number the shorter one in the middle.
TimedSteps time_prompt(colibri_model *model, uint32_t n_ids) {
  std::vector<TimedSteps> runs;
  double seconds = 0;
  while (runs.size() < kMostRuns && seconds < kEnoughSeconds) {
    runs.push_back(compute_prompt(model, n_ids));
    seconds += runs.back().seconds();
  }
  std::sort(runs.begin(), runs.end(),
            [](const TimedSteps &a, const TimedSteps &b) { return a.seconds() < b.seconds(); });
  return runs[(runs.size() - 1) / 2];
}

// Multiply-adds per nanosecond.
double expert_gmacs(const TimedSteps &steps) {
  if (steps.counts.expert_ns == 0) return 0;
  return static_cast<double>(steps.counts.n_expert_macs) /
         static_cast<double>(steps.counts.expert_ns);
}

double expert_time_share(const TimedSteps &steps) {
  return static_cast<double>(steps.counts.expert_ns) * 1e-9 / steps.seconds();
}

double integer_gmacs(const TimedSteps &steps) {
  return static_cast<double>(steps.counts.n_integer_macs) / steps.seconds() * 1e-9;
}

double rows_per_expert(const TimedSteps &steps) {
  const auto n_experts = static_cast<double>(steps.counts.n_experts_touched);
  return n_experts > 0 ? static_cast<double>(steps.counts.n_expert_rows) / n_experts : 0;
}

int run_prefill(const Prefill &prefill) {
  colibri_model_options options = make_model_options(prefill.model);
  options.n_slots = 1;
  options.context_tokens = prefill.plan.longest() + 1;
  if (options.max_rows == 0) options.max_rows = prefill.plan.chunk();
  BenchModel model(prefill.model, options);
  const std::vector<TimedSteps> results = measure_prefill(model.get(), prefill.plan);
  const double cache_gmacs = measure_cache_gmacs(model.kernel_set(), model.n_threads());
  if (!prefill.wants_json) {
    print(model.title() + format_prefill(prefill.plan, results, cache_gmacs));
    return 0;
  }
  JsonOutput json;
  json.begin_object();
  model.write_facts(&json);
  write_prefill(prefill.plan, results, cache_gmacs, &json);
  json.end_object();
  print(json.text() + "\n");
  return 0;
}

}  // namespace

uint32_t PrefillPlan::longest() const {
  return static_cast<uint32_t>(*std::max_element(lengths.begin(), lengths.end()));
}

uint32_t PrefillPlan::chunk() const {
  return std::min(longest(), kDefaultChunk);
}

void add_prefill_option(CLI::App &app, const char *option, PrefillPlan *plan) {
  add_number_list(app, option, {1, 1 << 20}, &plan->lengths,
                  "Lengths of the prompts that are timed [512]");
}

double measure_cache_gmacs(const std::string &kernel_set, uint32_t n_threads) {
  colibri_measure_options options;
  colibri_measure_options_init(&options, sizeof options);
  options.n_threads = n_threads;
  options.kernel_set = kernel_set.c_str();
  options.memory_bytes = 16 << 20;
  const uint32_t rows[] = {32};
  auto machine = sized<colibri_machine_figures>();
  colibri_kernel_figures figures[1];
  call(colibri_measure_kernels, &options, rows, size_t{1}, &machine, figures, sizeof figures[0]);
  return machine.cache_gmacs;
}

std::vector<TimedSteps> measure_prefill(colibri_model *model, const PrefillPlan &plan) {
  ProgressLine line;
  std::vector<TimedSteps> results;
  for (const int32_t length : plan.lengths) {
    line.show("computing a prompt of " + std::to_string(length) + " tokens");
    const auto n_ids = static_cast<uint32_t>(length);
    compute_prompt(model, n_ids);  // brings experts into RAM
    results.push_back(time_prompt(model, n_ids));
  }
  line.clear();
  return results;
}

void write_prefill(const PrefillPlan &plan, std::span<const TimedSteps> results, double cache_gmacs,
                   JsonOutput *json) {
  json->member("cache_gmacs", cache_gmacs).key("prefill").begin_array();
  for (size_t i = 0; i < results.size(); ++i) {
    const TimedSteps &steps = results[i];
    json->begin_object().member("prompt", static_cast<uint64_t>(plan.lengths[i]));
    json->member("tokens_per_second", steps.rows_per_second());
    json->member("tokens", steps.n_rows).member("steps", steps.n_steps());
    json->member("seconds", steps.seconds());
    json->member("experts_per_step", steps.per_step(steps.counts.n_experts_touched));
    json->member("rows_per_expert", rows_per_expert(steps));
    json->member("expert_gmacs", expert_gmacs(steps));
    json->member("share_of_cache_peak", expert_gmacs(steps) / cache_gmacs);
    json->member("expert_time_share", expert_time_share(steps));
    json->member("integer_gmacs", integer_gmacs(steps));
    json->member("step_share_of_cache_peak", integer_gmacs(steps) / cache_gmacs);
    json->member("expert_hits", steps.counts.expert_hits);
    json->member("expert_misses", steps.counts.expert_misses);
    json->member("read_bytes", steps.counts.read_bytes).end_object();
  }
  json->end_array();
}

std::string format_prefill(const PrefillPlan &plan, std::span<const TimedSteps> results,
                           double cache_gmacs) {
  char line[200];
  std::snprintf(line, sizeof line,
                "prefill; INT4 kernel in cache (peak) %.1f GMAC/s; expert: routed experts in the "
                "time of their products; step: all integer products in the whole time\n",
                cache_gmacs);
  std::string table = line;
  table +=
      "prompt   tokens/s   passes  experts/pass  rows/expert  expert GMAC/s  expert/peak  "
      "expert time  step GMAC/s  step/peak   misses        read\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const TimedSteps &steps = results[i];
    std::snprintf(line, sizeof line,
                  "%6d %10.1f %8llu %13.1f %12.1f %14.1f %12.2f %12.2f %12.1f %10.2f %8llu %11s\n",
                  plan.lengths[i], steps.rows_per_second(),
                  static_cast<unsigned long long>(steps.n_steps()),
                  steps.per_step(steps.counts.n_experts_touched), rows_per_expert(steps),
                  expert_gmacs(steps), expert_gmacs(steps) / cache_gmacs, expert_time_share(steps),
                  integer_gmacs(steps), integer_gmacs(steps) / cache_gmacs,
                  static_cast<unsigned long long>(steps.counts.expert_misses),
                  format_bytes(steps.counts.read_bytes).c_str());
    table += line;
  }
  return table;
}

void add_bench_prefill(CLI::App &bench, Run *run) {
  CLI::App *sub = bench.add_subcommand(
      "prefill", "Measure tokens per second of prompts, against the INT4 kernel in cache");
  const auto prefill = std::make_shared<Prefill>();
  add_model_path(*sub, &prefill->model, ModelArgument::kPositional);
  add_prefill_option(*sub, "--tokens", &prefill->plan);
  add_model_flags(*sub, &prefill->model, "512");
  sub->add_flag("--json", prefill->wants_json, "Print one JSON object");
  sub->callback([prefill, run] { *run = [prefill] { return run_prefill(*prefill); }; });
}

}  // namespace colibri::command

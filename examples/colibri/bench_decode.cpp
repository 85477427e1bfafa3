// SPDX-License-Identifier: Apache-2.0
//
// colibri bench decode: tokens per second by number of slots, against the time that reading the
// bytes of a step alone would take.
//
// All slots are filled first, one after the other, and held back; then they decode in lockstep, so
// that every timed step has a row of each and nothing else. The same is done once before without
// the clock: what experts the timed steps still read from files is because they do not all fit.
//
// Tokens per second are those of all steps. The byte bound is told by groups of eight steps, each
// against the read bandwidth just before and behind it: that of a shared machine may double from
// one second to the next, and one step that another program disturbs would move a mean.

#include <algorithm>
#include <cstdio>
#include <memory>

#include "examples/colibri/bench.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

constexpr size_t kGroupSteps = 8;
constexpr double kSteadyRatio = 1.15;

struct Decode {
  ModelFlags model;
  DecodePlan plan;
  bool wants_json = false;
};

uint64_t n_generated(const colibri_scheduler *scheduler) {
  auto stats = sized<colibri_scheduler_stats>();
  call(colibri_scheduler_get_stats, scheduler, &stats);
  return stats.n_tokens;
}

// Computes the prompt of one slot, whose last step makes the first token; from then on the request
// waits. All others wait meanwhile.
colibri_request_id fill_slot(colibri_model *model, colibri_scheduler *scheduler, uint32_t slot,
                             const DecodePlan &plan) {
  const colibri_request_id request =
      submit_prompt(model, scheduler, slot, plan.n_context, plan.n_tokens + 1);
  const uint64_t n_before = n_generated(scheduler);
  while (n_generated(scheduler) == n_before) run_step(model, scheduler, nullptr);
  call(colibri_scheduler_pause, scheduler, request);
  return request;
}

// The read bandwidth between two steps.
struct ReadPoint {
  size_t n_steps;  // before it
  double gbps;
};

// Notes the read bandwidth before, between groups of steps, and behind them, unless `reads` is NULL.
TimedSteps decode_once(colibri_model *model, colibri_scheduler *scheduler, uint32_t n_slots,
                       const DecodePlan &plan, std::vector<ReadPoint> *reads) {
  std::vector<colibri_request_id> requests;
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    requests.push_back(fill_slot(model, scheduler, slot, plan));
  }
  for (const colibri_request_id request : requests) {
    call(colibri_scheduler_resume, scheduler, request);
  }
  const uint32_t n_threads = read_facts(model).n_threads;
  TimedSteps steps;
  const auto measure = [&] { reads->push_back({steps.n_steps(), measure_read_gbps(n_threads)}); };
  do {
    if (reads != nullptr && steps.n_steps() % kGroupSteps == 0) measure();
  } while (run_step(model, scheduler, &steps).n_active > 0);
  if (reads != nullptr) measure();
  return steps;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Each group of steps is held against the reads on either side of it. Where those differ much the
// machine changed meanwhile and the group says nothing; if that is so everywhere, all count.
void hold_against_reads(std::span<const ReadPoint> reads, TimedSteps *steps) {
  std::vector<double> gbps, all_shares, steady_shares;
  for (const ReadPoint &read : reads) gbps.push_back(read.gbps);
  for (size_t i = 0; i + 1 < reads.size(); ++i) {
    const auto first = steps->step_seconds.begin();
    const std::vector<double> group(first + static_cast<ptrdiff_t>(reads[i].n_steps),
                                    first + static_cast<ptrdiff_t>(reads[i + 1].n_steps));
    if (group.empty()) continue;
    const auto [least, most] = std::minmax(reads[i].gbps, reads[i + 1].gbps);
    const double bound_seconds = steps->bytes_per_step() / ((least + most) / 2 * 1e9);
    const double share = bound_seconds / median(group);
    all_shares.push_back(share);
    if (most < kSteadyRatio * least) steady_shares.push_back(share);
  }
  steps->read_gbps = median(gbps);
  steps->share_of_byte_bound = median(steady_shares.empty() ? all_shares : steady_shares);
}

double ratio_to_first(std::span<const TimedSteps> results, size_t i) {
  return results[i].rows_per_second() / results[0].rows_per_second();
}

double best_read_gbps(std::span<const TimedSteps> results) {
  double best = 0;
  for (const TimedSteps &steps : results) best = std::max(best, steps.read_gbps);
  return best;
}

void write_result(const TimedSteps &steps, uint32_t n_threads, JsonOutput *json) {
  const colibri_model_stats &counts = steps.counts;
  json->member("step_ms_p50", 1e3 * steps.step_percentile(0.5));
  json->member("step_ms_p95", 1e3 * steps.step_percentile(0.95));
  json->member("bytes_per_step", steps.bytes_per_step());
  json->member("dense_bytes_per_step", steps.per_step(counts.dense_bytes_touched));
  json->member("expert_bytes_per_step", steps.per_step(counts.expert_bytes_touched));
  json->member("kv_bytes_per_step", steps.per_step(counts.kv_bytes_touched));
  json->member("experts_per_step", steps.per_step(counts.n_experts_touched));
  json->member("read_gbps", steps.read_gbps);
  json->member("share_of_byte_bound", steps.share_of_byte_bound);
  json->member("region_share", steps.region_share());
  json->member("busy_share", steps.busy_share(n_threads));
  json->member("tokens", steps.n_rows).member("steps", steps.n_steps());
  json->member("seconds", steps.seconds()).member("expert_hits", counts.expert_hits);
  json->member("expert_misses", counts.expert_misses).member("read_bytes", counts.read_bytes);
}

std::string per_step_bytes(const TimedSteps &steps, uint64_t count) {
  return format_bytes(static_cast<uint64_t>(steps.per_step(count)));
}

int run_decode(const Decode &decode) {
  colibri_model_options options = make_model_options(decode.model);
  options.n_slots = decode.plan.most_slots();
  options.context_tokens = decode.plan.n_positions();
  if (options.max_rows == 0) options.max_rows = std::max(128u, options.n_slots);
  BenchModel model(decode.model, options);
  const std::vector<TimedSteps> results = measure_decoding(model.get(), decode.plan);
  const uint32_t n_threads = model.n_threads();
  if (!decode.wants_json) {
    print(model.title() + format_decoding(decode.plan, results, n_threads));
    return 0;
  }
  JsonOutput json;
  json.begin_object();
  model.write_facts(&json);
  write_decoding(decode.plan, results, n_threads, &json);
  json.end_object();
  print(json.text() + "\n");
  return 0;
}

}  // namespace

uint32_t DecodePlan::most_slots() const {
  return static_cast<uint32_t>(*std::max_element(slots.begin(), slots.end()));
}

void add_decode_options(CLI::App &app, DecodePlan *plan) {
  add_number_list(
      app, "--slots", {1, 512}, &plan->slots,
      "Numbers of sequences decoded at once; the first is the measure of all [1,2,4,8]");
  add_whole_number(app, "--context", {1, 1 << 20}, &plan->n_context,
                   "Tokens that every slot holds before it decodes [128]");
  add_whole_number(app, "--tokens", {2, 1 << 20}, &plan->n_tokens,
                   "Tokens to decode in every slot [64]");
}

std::vector<TimedSteps> measure_decoding(colibri_model *model, const DecodePlan &plan) {
  ProgressLine line;
  std::vector<TimedSteps> results;
  for (const int32_t number : plan.slots) {
    line.show("decoding with " + std::to_string(number) + " slots");
    const auto n_slots = static_cast<uint32_t>(number);
    const SchedulerPtr scheduler = make_scheduler(model, n_slots);
    decode_once(model, scheduler.get(), n_slots, plan, nullptr);
    std::vector<ReadPoint> reads;
    results.push_back(decode_once(model, scheduler.get(), n_slots, plan, &reads));
    hold_against_reads(reads, &results.back());
  }
  line.clear();
  return results;
}

void write_decoding(const DecodePlan &plan, std::span<const TimedSteps> results, uint32_t n_threads,
                    JsonOutput *json) {
  json->member("read_gbps", best_read_gbps(results)).member("context", uint64_t{plan.n_context});
  json->key("decode").begin_array();
  for (size_t i = 0; i < results.size(); ++i) {
    json->begin_object().member("slots", static_cast<uint64_t>(plan.slots[i]));
    json->member("tokens_per_second", results[i].rows_per_second());
    json->member("ratio", ratio_to_first(results, i));
    write_result(results[i], n_threads, json);
    json->end_object();
  }
  json->end_array();
}

std::string format_decoding(const DecodePlan &plan, std::span<const TimedSteps> results,
                            uint32_t n_threads) {
  char line[240];
  std::snprintf(line, sizeof line,
                "decode %u tokens behind %u; plain reads %.2f GB/s; of bound: the time of reading "
                "the bytes of a step, over the step's\n",
                plan.n_tokens, plan.n_context, best_read_gbps(results));
  std::string table = line;
  table +=
      "slots   tokens/s  ratio   ms p50   ms p95  dense/step  experts/step       bytes     kv/step"
      "   GB/s  of bound  shared  busy   misses        read\n";
  for (size_t i = 0; i < results.size(); ++i) {
    const TimedSteps &steps = results[i];
    std::snprintf(
        line, sizeof line,
        "%5d %10.1f %6.2f %8.2f %8.2f %11s %13.1f %11s %11s %6.1f %9.2f %7.2f %5.2f %8llu "
        "%11s\n",
        plan.slots[i], steps.rows_per_second(), ratio_to_first(results, i),
        1e3 * steps.step_percentile(0.5), 1e3 * steps.step_percentile(0.95),
        per_step_bytes(steps, steps.counts.dense_bytes_touched).c_str(),
        steps.per_step(steps.counts.n_experts_touched),
        per_step_bytes(steps, steps.counts.expert_bytes_touched).c_str(),
        per_step_bytes(steps, steps.counts.kv_bytes_touched).c_str(), steps.read_gbps,
        steps.share_of_byte_bound, steps.region_share(), steps.busy_share(n_threads),
        static_cast<unsigned long long>(steps.counts.expert_misses),
        format_bytes(steps.counts.read_bytes).c_str());
    table += line;
  }
  return table;
}

void add_bench_decode(CLI::App &bench, Run *run) {
  CLI::App *sub = bench.add_subcommand(
      "decode", "Measure tokens per second by number of slots, against the bytes of a step");
  const auto decode = std::make_shared<Decode>();
  add_model_path(*sub, &decode->model, ModelArgument::kPositional);
  add_decode_options(*sub, &decode->plan);
  add_model_flags(*sub, &decode->model);
  sub->add_flag("--json", decode->wants_json, "Print one JSON object");
  sub->callback([decode, run] { *run = [decode] { return run_decode(*decode); }; });
}

}  // namespace colibri::command

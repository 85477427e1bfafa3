// SPDX-License-Identifier: Apache-2.0
//
// colibri bench: tokens per second by number of slots, and of a prompt. Every figure is also given
// as a ratio to the first slot count of the same run, and stands beside the expert needs and bytes
// read that it took.
//
// Only steps that decode all slots and nothing else are counted for decoding; a first run is not
// counted at all.

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "examples/colibri/bench.h"
#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Bench {
  ModelFlags model;
  std::vector<int32_t> slots = {1, 2, 4, 8};
  uint32_t n_tokens = 64;
  uint32_t n_prompt = 256;
  bool wants_json = false;
};

struct Measurement {
  uint32_t n_slots = 0;
  uint64_t n_rows = 0;
  uint64_t n_steps = 0;
  double seconds = 0;
  uint64_t expert_hits = 0;
  uint64_t expert_misses = 0;
  uint64_t read_bytes = 0;

  double rate() const { return seconds > 0 ? static_cast<double>(n_rows) / seconds : 0; }
  double step_ms() const { return n_steps > 0 ? 1e3 * seconds / static_cast<double>(n_steps) : 0; }
  double needs_per_token() const {
    return n_rows > 0
               ? static_cast<double>(expert_hits + expert_misses) / static_cast<double>(n_rows)
               : 0;
  }
};

constexpr uint32_t kShortPrompt = 16;

// Ids that differ from slot to slot from the first one on, so that no prefix is shared.
std::vector<int32_t> make_prompt(uint32_t n_ids, uint32_t slot, uint32_t n_token_ids) {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < n_ids; ++i) {
    ids.push_back(static_cast<int32_t>((i * 7919 + (slot + 1) * 104729ull) % n_token_ids));
  }
  return ids;
}

void submit(colibri_scheduler *scheduler, const std::vector<int32_t> &prompt, uint32_t n_tokens) {
  colibri_request_options options;
  colibri_request_options_init(&options, sizeof options);
  options.prompt_ids = prompt.data();
  options.n_prompt_ids = prompt.size();
  options.max_tokens = n_tokens;
  options.ignore_model_stops = 1;
  colibri_request_id request = 0;
  call(colibri_scheduler_submit, scheduler, &options, &request, nullptr);
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

void add_step(const colibri_step_result &step, const colibri_model_stats &before,
              const colibri_model_stats &after, Measurement *total) {
  total->n_rows += step.n_rows;
  total->n_steps += 1;
  total->seconds += static_cast<double>(step.elapsed_ns) * 1e-9;
  total->expert_hits += after.expert_hits - before.expert_hits;
  total->expert_misses += after.expert_misses - before.expert_misses;
  total->read_bytes += after.read_bytes - before.read_bytes;
}

// Runs n_slots requests side by side and adds up the steps that are of the wanted kind alone.
Measurement measure(colibri_model *model, uint32_t n_slots, uint32_t n_prompt, uint32_t n_tokens,
                    bool is_prefill) {
  colibri_scheduler_options options;
  colibri_scheduler_options_init(&options, sizeof options);
  options.n_slots = n_slots;
  colibri_scheduler *created = nullptr;
  call(colibri_scheduler_create, model, &options, &created);
  const SchedulerPtr scheduler(created);
  const uint32_t n_token_ids = read_facts(model).n_token_ids;
  for (uint32_t slot = 0; slot < n_slots; ++slot) {
    submit(created, make_prompt(n_prompt, slot, n_token_ids), n_tokens);
  }
  Measurement total;
  total.n_slots = n_slots;
  auto step = sized<colibri_step_result>();
  step.n_active = n_slots;
  while (step.n_active + step.n_queued > 0 && !is_interrupted()) {
    const colibri_model_stats before = read_stats(model);
    call(colibri_scheduler_step, created, COLIBRI_STEP_NOWAIT, &step);
    const bool counts = is_prefill ? step.n_prefill_rows > 0 && step.n_decode_rows == 0
                                   : step.n_prefill_rows == 0 && step.n_decode_rows == n_slots;
    if (counts) add_step(step, before, read_stats(model), &total);
    drop_events(created);
  }
  return total;
}

// 0 where nothing was measured, as after an interruption.
double ratio_to(double base_rate, const Measurement &result) {
  return base_rate > 0 ? result.rate() / base_rate : 0;
}

void add_json(JsonOutput *json, const Measurement &result, double base_rate) {
  json->begin_object()
      .member("slots", uint64_t{result.n_slots})
      .member("tokens_per_second", result.rate());
  json->member("ratio", ratio_to(base_rate, result)).member("step_ms", result.step_ms());
  json->member("tokens", result.n_rows)
      .member("steps", result.n_steps)
      .member("seconds", result.seconds);
  json->member("experts_per_token", result.needs_per_token())
      .member("expert_hits", result.expert_hits);
  json->member("expert_misses", result.expert_misses)
      .member("read_bytes", result.read_bytes)
      .end_object();
}

std::string make_json(const colibri_model_facts &facts, const std::vector<Measurement> &decode,
                      const Measurement &prefill) {
  const double base_rate = decode.front().rate();
  JsonOutput json;
  json.begin_object().member("model_type", facts.model_type).member("kernel_set", facts.kernel_set);
  json.member("threads", uint64_t{facts.n_threads}).key("decode").begin_array();
  for (const Measurement &result : decode) add_json(&json, result, base_rate);
  json.end_array().key("prefill");
  add_json(&json, prefill, base_rate);
  json.end_object();
  return json.text() + "\n";
}

void add_row(std::string *table, const char *kind, const Measurement &result, double base_rate) {
  char line[160];
  std::snprintf(line, sizeof line, "%-8s %5u %10.1f %8.2f %10.3f %14.1f %8llu %8llu %11s\n", kind,
                result.n_slots, result.rate(), ratio_to(base_rate, result), result.step_ms(),
                result.needs_per_token(), static_cast<unsigned long long>(result.expert_hits),
                static_cast<unsigned long long>(result.expert_misses),
                format_bytes(result.read_bytes).c_str());
  *table += line;
}

std::string make_table(const colibri_model_facts &facts, const std::vector<Measurement> &decode,
                       const Measurement &prefill) {
  std::string table = std::string(facts.model_type) + ", kernels " + facts.kernel_set + ", " +
                      std::to_string(facts.n_threads) + " threads\n";
  table +=
      "         slots   tokens/s    ratio    ms/step  experts/token     hits   misses        "
      "read\n";
  const double base_rate = decode.front().rate();
  for (const Measurement &result : decode) add_row(&table, "decode", result, base_rate);
  add_row(&table, "prefill", prefill, base_rate);
  return table;
}

int run_bench(const Bench &bench) {
  const auto most_slots =
      static_cast<uint32_t>(*std::max_element(bench.slots.begin(), bench.slots.end()));
  colibri_model_options options = make_model_options(bench.model);
  options.n_slots = most_slots;
  options.context_tokens = std::max(kShortPrompt + bench.n_tokens, bench.n_prompt + 1);
  if (options.max_rows == 0) options.max_rows = std::max(128u, most_slots);
  const ModelPtr model = open_model(bench.model, options);
  ProgressLine line;
  measure(model.get(), 1, bench.n_prompt, 1, true);
  const Measurement prefill = measure(model.get(), 1, bench.n_prompt, 1, true);
  std::vector<Measurement> decode;
  for (const int32_t n_slots : bench.slots) {
    line.show("decoding with " + std::to_string(n_slots) + " slots");
    decode.push_back(
        measure(model.get(), static_cast<uint32_t>(n_slots), kShortPrompt, bench.n_tokens, false));
    if (is_interrupted()) return kExitInterrupted;
  }
  line.clear();
  const colibri_model_facts facts = read_facts(model.get());
  print(bench.wants_json ? make_json(facts, decode, prefill) : make_table(facts, decode, prefill));
  return 0;
}

}  // namespace

void add_bench(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("bench", "Measure tokens per second");
  const auto bench = std::make_shared<Bench>();
  add_model_path(*sub, &bench->model, ModelArgument::kPositional);
  add_number_list(
      *sub, "--slots", {1, 512}, &bench->slots,
      "Numbers of sequences decoded at once; the first is the measure of all [1,2,4,8]");
  add_whole_number(*sub, "--tokens", {2, 1 << 20}, &bench->n_tokens,
                   "Tokens to decode in every slot [64]");
  add_whole_number(*sub, "--prompt", {1, 1 << 20}, &bench->n_prompt,
                   "Tokens of the prompt that is timed [256]");
  add_model_flags(*sub, &bench->model);
  sub->add_flag("--json", bench->wants_json, "Print one JSON object");
  sub->callback([sub, bench, run] {
    if (sub->get_subcommands().empty()) *run = [bench] { return run_bench(*bench); };
  });
  add_bench_kernels(*sub, run);
}

}  // namespace colibri::command

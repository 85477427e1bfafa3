// SPDX-License-Identifier: Apache-2.0
//
// colibri bench: the subcommands, and without one the two tables that say how fast a model is:
// decoding by number of slots, and a prompt.

#include <algorithm>
#include <memory>

#include "examples/colibri/bench.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Bench {
  ModelFlags model;
  DecodePlan decode;
  PrefillPlan prefill;
  bool wants_json = false;
};

int run_bench(const Bench &bench) {
  colibri_model_options options = make_model_options(bench.model);
  options.n_slots = bench.decode.most_slots();
  options.context_tokens = std::max(bench.decode.n_positions(), bench.prefill.longest() + 1);
  if (options.max_rows == 0) options.max_rows = std::max(bench.prefill.chunk(), options.n_slots);
  BenchModel model(bench.model, options);
  const std::vector<TimedSteps> prompts = measure_prefill(model.get(), bench.prefill);
  const std::vector<TimedSteps> decoding = measure_decoding(model.get(), bench.decode);
  const double cache_gmacs = measure_cache_gmacs(model.kernel_set(), model.n_threads());
  if (!bench.wants_json) {
    print(model.title() + "\n" + format_decoding(bench.decode, decoding, model.n_threads()) + "\n" +
          format_prefill(bench.prefill, prompts, cache_gmacs));
    return 0;
  }
  JsonOutput json;
  json.begin_object();
  model.write_facts(&json);
  write_decoding(bench.decode, decoding, model.n_threads(), &json);
  write_prefill(bench.prefill, prompts, cache_gmacs, &json);
  json.end_object();
  print(json.text() + "\n");
  return 0;
}

// Options between "bench" and its subcommand would be read and forgotten.
void refuse_options_before(const CLI::App &subcommand, const CLI::App &bench) {
  for (const CLI::Option *option : bench.get_options()) {
    if (option->count() == 0) continue;
    throw CLI::ValidationError(option->get_name(),
                               "stands before '" + subcommand.get_name() + "'; write it behind");
  }
}

}  // namespace

void add_bench(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("bench", "Measure this machine and a model on it");
  const auto bench = std::make_shared<Bench>();
  add_model_path(*sub, &bench->model, ModelArgument::kPositional);
  add_decode_options(*sub, &bench->decode);
  add_prefill_option(*sub, "--prompt", &bench->prefill);
  add_model_flags(*sub, &bench->model);
  sub->add_flag("--json", bench->wants_json, "Print one JSON object");
  sub->require_subcommand(0, 1);
  sub->callback([sub, bench, run] {
    const auto chosen = sub->get_subcommands();
    if (!chosen.empty()) return refuse_options_before(*chosen.front(), *sub);
    *run = [bench] { return run_bench(*bench); };
  });
  add_bench_kernels(*sub, run);
  add_bench_decode(*sub, run);
  add_bench_prefill(*sub, run);
  add_bench_synth(*sub, run);
}

}  // namespace colibri::command

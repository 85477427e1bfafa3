// SPDX-License-Identifier: Apache-2.0
//
// colibri bench synth: a packed model of random weights with the layer shape of a published one, to
// measure a machine before a large download.

#include <limits>
#include <memory>
#include <string>

#include "examples/colibri/bench.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/transfer_progress.h"

namespace colibri::command {
namespace {

struct Synth {
  std::string destination;
  std::string shape = "qwen3-30b";
  uint32_t n_layers = 4;
  float skew = 0;
  float repeat = 0.4f;
  uint64_t seed = 1;
  uint32_t n_threads = 0;
};

int run_synth(const Synth &synth) {
  TransferProgress progress("writing");
  colibri_synthesis_options options;
  colibri_synthesis_options_init(&options, sizeof options);
  options.n_layers = synth.n_layers;
  options.shape = synth.shape.c_str();
  options.skew = synth.skew;
  options.repeat = synth.repeat;
  options.seed = synth.seed;
  options.n_threads = synth.n_threads;
  options.progress = show_transfer;
  options.progress_user = &progress;
  call(colibri_snapshot_synthesise, synth.destination.c_str(), &options);
  return 0;
}

}  // namespace

void add_bench_synth(CLI::App &bench, Run *run) {
  CLI::App *sub =
      bench.add_subcommand("synth", "Write a packed model of random weights to measure with");
  const auto synth = std::make_shared<Synth>();
  sub->add_option("OUT", synth->destination, "Folder to make")->required()->type_name("PATH");
  sub->add_option("--shape", synth->shape,
                  "Whose layers: qwen3-30b, glm-5.2, mixtral-8x7b or colibri-tiny")
      ->type_name("NAME")
      ->capture_default_str();
  add_whole_number(*sub, "--layers", {1, 1000}, &synth->n_layers, "Layers [4]");
  add_real_number(*sub, "--skew", {0, 2}, &synth->skew,
                  "How unevenly experts are used: the r-th most used one as r^-S [0]");
  add_real_number(*sub, "--repeat", {.includes_least = false}, &synth->repeat,
                  "Share of experts that two consecutive tokens have in common [0.4]");
  add_whole_number(*sub, "--seed", {1, std::numeric_limits<uint64_t>::max()}, &synth->seed,
                   "Seed of the weights [1]");
  add_whole_number(*sub, "--threads", {1, 1024}, &synth->n_threads,
                   "Computing threads [physical cores]");
  sub->callback([synth, run] { *run = [synth] { return run_synth(*synth); }; });
}

}  // namespace colibri::command

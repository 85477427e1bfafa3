// SPDX-License-Identifier: Apache-2.0
//
// colibri inspect: what a snapshot holds, without loading it.

#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_table.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Inspect {
  ModelFlags model;
  bool wants_json = false;
};

int run_inspect(const Inspect &inspect) {
  const std::string path = model_path(inspect.model);
  const auto json = read_sized<std::string>([&](char *buffer, size_t capacity, size_t *length) {
    call(colibri_snapshot_describe, path.c_str(), buffer, capacity, length);
  });
  print(inspect.wants_json ? json + "\n" : format_json_table(json));
  return 0;
}

}  // namespace

void add_inspect(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("inspect", "Show what a model folder holds");
  const auto inspect = std::make_shared<Inspect>();
  add_model_path(*sub, &inspect->model, ModelArgument::kPositional);
  sub->add_flag("--json", inspect->wants_json, "Print one JSON object");
  sub->callback([inspect, run] { *run = [inspect] { return run_inspect(*inspect); }; });
}

}  // namespace colibri::command

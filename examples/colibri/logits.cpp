// SPDX-License-Identifier: Apache-2.0
//
// colibri logits: the logits of every position of a list of ids, as a NumPy file of float32 [T, V].

#include <cstdio>
#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/logits_pass.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/npy_writer.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Logits {
  ModelFlags model;
  std::vector<int32_t> ids;
  std::string out;
};

int run_logits(const Logits &logits) {
  const uint32_t chunk = logits.model.chunk == 0 ? kDefaultChunk : logits.model.chunk;
  colibri_model_options options = make_model_options(logits.model);
  options.context_tokens = static_cast<uint32_t>(logits.ids.size());
  options.max_rows = chunk;
  options.max_logits_rows = chunk;
  options.skip_tokenizer = 1;
  const ModelPtr model = open_model(logits.model, options);
  LogitsPass pass(model.get(), chunk);
  NpyWriter file(logits.out, logits.ids.size(), read_facts(model.get()).vocabulary_size);
  ProgressLine line;
  const bool is_complete = pass.run(logits.ids, [&](size_t position, std::span<const float> row) {
    file.write_row(row);
    line.show("position " + std::to_string(position + 1) + " of " +
              std::to_string(logits.ids.size()));
  });
  if (!is_complete) return kExitInterrupted;
  file.finish();
  return 0;
}

}  // namespace

void add_logits(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("logits", "Write the logits of every position as a .npy file");
  const auto logits = std::make_shared<Logits>();
  add_model_path(*sub, &logits->model, ModelArgument::kPositional);
  add_ids_option(*sub, &logits->ids, "Token ids of the sequence")->required();
  sub->add_option("--out", logits->out, "File to write: float32, one row per position")
      ->required()
      ->type_name("FILE.npy");
  add_model_flags(*sub, &logits->model);
  sub->callback([logits, run] { *run = [logits] { return run_logits(*logits); }; });
}

}  // namespace colibri::command

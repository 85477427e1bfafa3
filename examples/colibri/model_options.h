// SPDX-License-Identifier: Apache-2.0
//
// The flags that say which model is opened and how, common to all subcommands that open one.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "examples/colibri/colibri_raii.h"

namespace colibri::command {

struct ModelFlags {
  std::string path;  // empty: the embedded model
  std::string isa;   // empty: the best that this CPU has
  std::string activations = "int8";
  uint32_t n_threads = 0;         // 0: as the library decides
  uint64_t ram_budget_bytes = 0;  // 0: as the library decides
  uint32_t chunk = 0;             // rows of one pass; 0: as the library decides
  float latent_norm_eps = 0;      // 0: as the config says
};

// Is the model named as first argument or with --model?
enum class ModelArgument { kPositional, kFlagOnly };

// Adds --model (or MODEL).
void add_model_path(CLI::App &app, ModelFlags *flags, ModelArgument kind);
// Adds --activations, --isa, --threads, --ram-budget, --chunk, --latent-norm-eps.
// `default_chunk` is for the help text.
void add_model_flags(CLI::App &app, ModelFlags *flags, const char *default_chunk = "128");

// The path given, or that of the embedded model. Throws std::runtime_error if nothing is there; it
// says to give `wanted`.
std::string model_path(const ModelFlags &flags,
                       const char *wanted = "a folder with config.json and *.safetensors files");
// Library options of the flags; isa points into `flags`.
colibri_model_options make_model_options(const ModelFlags &flags);
// Opens the model with progress on the terminal; Ctrl-C stops the loading. Throws CallFailure; for
// a refused budget it names the least one.
ModelPtr open_model(const ModelFlags &flags, colibri_model_options options);

colibri_model_facts read_facts(const colibri_model *model);
colibri_model_stats read_stats(const colibri_model *model);

}  // namespace colibri::command

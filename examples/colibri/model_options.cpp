// SPDX-License-Identifier: Apache-2.0
//
// Flags to colibri_model_options. Ranges that the library checks are left to it, so that there is
// one truth.

#include "examples/colibri/model_options.h"

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "examples/colibri/embedded_model.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

int32_t show_loading(void *user, uint64_t done_bytes, uint64_t total_bytes) {
  static_cast<ProgressLine *>(user)->show("loading " + format_bytes(done_bytes) + " of " +
                                          format_bytes(total_bytes));
  return is_interrupted() ? 1 : 0;
}

// The least budget with which these options would do. A plan needs a budget, but the minimum does
// not depend on it.
std::string advise_budget(const std::string &path, colibri_model_options options) {
  if (options.ram_budget_bytes == 0) options.ram_budget_bytes = 1;
  auto plan = sized<colibri_plan>();
  call(colibri_model_plan, path.c_str(), &options, &plan);
  return "--ram-budget must be at least " + std::to_string(plan.minimum_bytes) + " (" +
         format_bytes(plan.minimum_bytes) + ")";
}

}  // namespace

void add_model_path(CLI::App &app, ModelFlags *flags, ModelArgument kind) {
  const char *names = kind == ModelArgument::kPositional ? "--model,MODEL" : "--model";
  app.add_option(names, flags->path,
                 "Folder of the model, or a file in it [the model that comes with the command]")
      ->type_name("PATH");
}

void add_model_flags(CLI::App &app, ModelFlags *flags, const char *default_chunk) {
  app.add_option("--activations", flags->activations,
                 "How INT4 and INT8 weights are multiplied: int8 or float")
      ->check(CLI::IsMember({"int8", "float"}))
      ->type_name("KIND")
      ->capture_default_str();
  app.add_option("--isa", flags->isa, "Kernel set: ref, avx2, avx512 [the best that this CPU has]")
      ->type_name("NAME");
  add_whole_number(app, "--threads", {1, 1024}, &flags->n_threads,
                   "Computing threads [physical cores]");
  add_size(app, "--ram-budget", &flags->ram_budget_bytes,
           "RAM for everything the model needs, such as 8G or 1.5G; K, M, G, T are powers of 1024 "
           "[90 % of what is free]");
  add_whole_number(
      app, "--chunk", {1, 4096}, &flags->chunk,
      std::string("Prompt tokens that are computed in one pass [") + default_chunk + "]");
  add_real_number(app, "--latent-norm-eps", {.includes_least = false}, &flags->latent_norm_eps,
                  "Epsilon of the two latent norms of attention [as config.json says]");
}

std::string model_path(const ModelFlags &flags, const char *wanted) {
  if (flags.path.empty()) return find_embedded_model();
  std::error_code error;
  if (std::filesystem::status(flags.path, error).type() == std::filesystem::file_type::not_found) {
    throw std::runtime_error("there is nothing at " + flags.path + "; give " + wanted);
  }
  return flags.path;
}

colibri_model_options make_model_options(const ModelFlags &flags) {
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof options);
  options.n_threads = flags.n_threads;
  options.ram_budget_bytes = flags.ram_budget_bytes;
  options.max_rows = flags.chunk;
  options.latent_norm_eps = flags.latent_norm_eps;
  options.activations =
      flags.activations == "float" ? COLIBRI_ACTIVATIONS_FLOAT : COLIBRI_ACTIVATIONS_INT8;
  options.kernel_set = flags.isa.empty() ? nullptr : flags.isa.c_str();
  return options;
}

ModelPtr open_model(const ModelFlags &flags, colibri_model_options options) {
  ProgressLine line;
  options.progress = show_loading;
  options.progress_user = &line;
  const std::string path = model_path(flags);
  colibri_model *model = nullptr;
  try {
    call(colibri_model_open, path.c_str(), &options, &model);
  } catch (const CallFailure &failure) {
    if (failure.status() != COLIBRI_E_BUDGET) throw;
    throw CallFailure(COLIBRI_E_BUDGET,
                      (advise_budget(path, options) + "; " + failure.what()).c_str());
  }
  return ModelPtr(model);
}

colibri_model_facts read_facts(const colibri_model *model) {
  auto facts = sized<colibri_model_facts>();
  call(colibri_model_get_facts, model, &facts);
  return facts;
}

colibri_model_stats read_stats(const colibri_model *model) {
  auto stats = sized<colibri_model_stats>();
  call(colibri_model_get_stats, model, &stats);
  return stats;
}

}  // namespace colibri::command

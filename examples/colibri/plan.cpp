// SPDX-License-Identifier: Apache-2.0
//
// colibri plan: how much memory a model would take, before anything is loaded.

#include <cstdio>
#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Plan {
  ModelFlags model;
  uint32_t n_slots = 1;
  uint32_t context_tokens = 0;
  bool wants_json = false;
};

void add_line(std::string *table, const char *name, uint64_t bytes,
              const std::string &remark = "") {
  char line[160];
  std::snprintf(line, sizeof line, "%-22s %12s  %s", name, format_bytes(bytes).c_str(),
                remark.c_str());
  *table += line;
  table->erase(table->find_last_not_of(' ') + 1);
  *table += '\n';
}

std::string share_of_experts(const colibri_plan &plan) {
  char text[80];
  const double share =
      plan.all_experts_bytes == 0
          ? 1
          : static_cast<double>(plan.expert_bytes) / static_cast<double>(plan.all_experts_bytes);
  std::snprintf(text, sizeof text, "%.1f %% of %s in %llu experts", 100 * share,
                format_bytes(plan.all_experts_bytes).c_str(),
                static_cast<unsigned long long>(plan.n_experts));
  return text;
}

std::string make_table(const colibri_plan &plan) {
  std::string table;
  add_line(&table, "dense weights", plan.dense_bytes);
  add_line(
      &table, "KV slots", plan.kv_bytes,
      std::to_string(plan.n_slots) + " x " + std::to_string(plan.context_tokens) + " positions");
  add_line(&table, "workspace", plan.workspace_bytes, std::to_string(plan.max_rows) + " rows");
  add_line(&table, "read buffers", plan.staging_bytes);
  add_line(&table, "tokenizer and tables", plan.overhead_bytes);
  add_line(&table, "experts in RAM", plan.expert_bytes, share_of_experts(plan));
  add_line(&table, "total", plan.total_bytes);
  table += '\n';
  add_line(&table, "budget", plan.budget_bytes,
           plan.is_feasible != 0 ? "" : "too small: it must be at least the minimum");
  add_line(&table, "minimum", plan.minimum_bytes);
  add_line(&table, "all experts in RAM", plan.full_bytes,
           "no reads after the first use from here on");
  const std::string context =
      plan.largest_context_tokens == 0 ? "none" : std::to_string(plan.largest_context_tokens);
  table += "largest context with this budget and these slots: " + context + "\n";
  return table;
}

int run_plan(const Plan &flags) {
  const std::string path = model_path(flags.model);
  colibri_model_options options = make_model_options(flags.model);
  options.n_slots = flags.n_slots;
  options.context_tokens = flags.context_tokens;
  if (flags.wants_json) {
    print(read_sized<std::string>([&](char *buffer, size_t capacity, size_t *length) {
            call(colibri_model_plan_json, path.c_str(), &options, buffer, capacity, length);
          }) +
          "\n");
    return 0;
  }
  auto plan = sized<colibri_plan>();
  call(colibri_model_plan, path.c_str(), &options, &plan);
  print(make_table(plan));
  return 0;
}

}  // namespace

void add_plan(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("plan", "Show how much memory a model would take");
  const auto plan = std::make_shared<Plan>();
  add_model_path(*sub, &plan->model, ModelArgument::kPositional);
  add_whole_number(*sub, "--slots", {1, 512}, &plan->n_slots, "Sequences at once [1]");
  add_whole_number(*sub, "--context", {.least = 1}, &plan->context_tokens,
                   "Positions per slot [4096, or what the model has]");
  add_model_flags(*sub, &plan->model);
  sub->add_flag("--json", plan->wants_json, "Print one JSON object");
  sub->callback([plan, run] { *run = [plan] { return run_plan(*plan); }; });
}

}  // namespace colibri::command

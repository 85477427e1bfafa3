// SPDX-License-Identifier: Apache-2.0
//
// A program that uses a model as much as its options allow (every slot full, every engine alive,
// every expert asked for) and compares the peak of its resident memory with the plan. Arguments:
// MODEL, budget in bytes beyond the minimum or "all", slots, context, rows. Exit status 0: the peak
// is at most the plan, 1 % and 4 MiB for the program itself.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "colibri/colibri.h"

namespace {

constexpr uint64_t kProgramBytes = 4u << 20;

uint64_t status_bytes(const char *key) {
  FILE *file = std::fopen("/proc/self/status", "r");
  char line[256];
  uint64_t kilobytes = 0;
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::strncmp(line, key, std::strlen(key)) == 0) {
      kilobytes = std::strtoull(line + std::strlen(key) + 1, nullptr, 10);
    }
  }
  std::fclose(file);
  return kilobytes * 1024;
}

void require(colibri_status status, const colibri_error &error) {
  if (status == COLIBRI_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(1);
}

// Fills all slots of one scheduler with prompts that differ, so that all experts are asked for.
void fill_slots(colibri_scheduler *scheduler, const colibri_model_facts &facts) {
  colibri_error error = COLIBRI_ERROR_INIT;
  std::vector<int32_t> prompt(facts.context_tokens - 2);
  for (uint32_t slot = 0; slot < facts.n_slots; ++slot) {
    for (size_t i = 0; i < prompt.size(); ++i) {
      prompt[i] = static_cast<int32_t>((i * 7919 + slot * 104729 + i * i) % facts.n_token_ids);
    }
    colibri_request_options options;
    colibri_request_options_init(&options, sizeof(options));
    options.prompt_ids = prompt.data();
    options.n_prompt_ids = prompt.size();
    options.ignore_model_stops = 1;
    colibri_request_id request = 0;
    require(colibri_scheduler_submit(scheduler, &options, &request, nullptr, &error), error);
  }
  colibri_step_result result{};
  result.struct_size = sizeof(result);
  do {
    require(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, &result, &error), error);
    colibri_event events[16];
    size_t n_events = 16;
    while (n_events == 16) {
      require(colibri_scheduler_next_events(scheduler, events, sizeof(events[0]), 16, &n_events,
                                            &error),
              error);
    }
  } while (result.n_active + result.n_queued > 0);
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof(options));
  options.n_threads = 2;
  options.ram_budget_bytes = UINT64_MAX;
  options.n_slots = static_cast<uint32_t>(std::atoi(argv[3]));
  options.context_tokens = static_cast<uint32_t>(std::atoi(argv[4]));
  options.max_rows = static_cast<uint32_t>(std::atoi(argv[5]));
  options.n_engines = 2;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  require(colibri_model_plan(argv[1], &options, &plan, &error), error);
  if (std::strcmp(argv[2], "all") != 0) {
    options.ram_budget_bytes = plan.minimum_bytes + std::strtoull(argv[2], nullptr, 10);
    require(colibri_model_plan(argv[1], &options, &plan, &error), error);
  }
  const uint64_t before = status_bytes("VmRSS");

  colibri_model *model = nullptr;
  colibri_scheduler *scheduler = nullptr;
  colibri_batch *batch = nullptr;
  require(colibri_model_open(argv[1], &options, &model, &error), error);
  colibri_model_facts facts{};
  facts.struct_size = sizeof(facts);
  require(colibri_model_get_facts(model, &facts, &error), error);
  require(colibri_scheduler_create(model, nullptr, &scheduler, &error), error);
  require(colibri_batch_create(model, &batch, &error), error);
  fill_slots(scheduler, facts);
  colibri_model_stats stats{};
  stats.struct_size = sizeof(stats);
  require(colibri_model_get_stats(model, &stats, &error), error);
  require(colibri_batch_destroy(batch, &error), error);
  require(colibri_scheduler_destroy(scheduler, &error), error);
  require(colibri_model_close(model, &error), error);

  const uint64_t used = status_bytes("VmHWM") - before;
  const uint64_t allowed = plan.total_bytes + plan.total_bytes / 100 + kProgramBytes;
  std::printf("peak %" PRIu64 ", plan %" PRIu64 " (dense %" PRIu64 ", kv %" PRIu64
              ", workspace %" PRIu64 ", staging %" PRIu64 ", overhead %" PRIu64 ", experts %" PRIu64
              "), %" PRIu64 " experts resident\n",
              used, plan.total_bytes, plan.dense_bytes, plan.kv_bytes, plan.workspace_bytes,
              plan.staging_bytes, plan.overhead_bytes, plan.expert_bytes, stats.resident_experts);
  if (stats.resident_expert_bytes > plan.expert_bytes) {
    std::fprintf(stderr, "%" PRIu64 " bytes of experts exceed the plan\n",
                 stats.resident_expert_bytes);
    return 1;
  }
  if (used > allowed) {
    std::fprintf(stderr, "the peak exceeds the plan by %" PRIu64 " bytes\n",
                 used - plan.total_bytes);
    return 1;
  }
  return 0;
}

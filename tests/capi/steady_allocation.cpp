// SPDX-License-Identifier: Apache-2.0
//
// A program that counts allocations of the whole process while several requests decode, once with
// all experts in memory and once with the least budget, where experts are read in every step. Exit
// status 0: there were none between steps 20 and 60.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "colibri/colibri.h"
#include "tests/capi/counted_allocator.h"

namespace {

void require(colibri_status status, const colibri_error &error) {
  if (status == COLIBRI_OK) return;
  std::fprintf(stderr, "%s\n", error.message);
  std::exit(1);
}

colibri_model *open(const char *path, bool has_least_budget, colibri_error &error) {
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof(options));
  options.n_threads = 2;
  options.n_slots = 3;
  options.context_tokens = 256;
  options.ram_budget_bytes = UINT64_MAX;
  if (has_least_budget) {
    colibri_plan plan{};
    plan.struct_size = sizeof(plan);
    require(colibri_model_plan(path, &options, &plan, &error), error);
    options.ram_budget_bytes = plan.minimum_bytes;
  }
  colibri_model *model = nullptr;
  require(colibri_model_open(path, &options, &model, &error), error);
  return model;
}

// Three requests that decode for a long time: greedy, sampled, and sampled with everything.
void submit_all(colibri_scheduler *scheduler, colibri_error &error) {
  const int32_t prompt[] = {11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  colibri_sampler sampler;
  colibri_sampler_init(&sampler, sizeof(sampler));
  for (uint32_t i = 0; i < 3; ++i) {
    colibri_request_options options;
    colibri_request_options_init(&options, sizeof(options));
    options.prompt_ids = prompt + i;
    options.n_prompt_ids = 6;
    options.max_tokens = 200;
    options.ignore_model_stops = 1;
    const char *stop_string = "a text that never comes";
    if (i > 0) {
      sampler.temperature = 0.8f;
      sampler.seed = i;
      options.sampler = &sampler;
    }
    if (i == 2) {
      sampler.top_k = 40;
      sampler.top_p = 0.9f;
      sampler.min_p = 0.01f;
      sampler.repetition_penalty = 1.1f;
      options.wants_logprobs = 1;
      options.stop_strings = &stop_string;
      options.n_stop_strings = 1;
    }
    colibri_request_id request = 0;
    require(colibri_scheduler_submit(scheduler, &options, &request, nullptr, &error), error);
  }
}

bool allocates_nothing(const char *path, bool has_least_budget) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model *model = open(path, has_least_budget, error);
  colibri_scheduler *scheduler = nullptr;
  require(colibri_scheduler_create(model, nullptr, &scheduler, &error), error);
  submit_all(scheduler, error);
  uint64_t n_tokens = 0;
  for (int step = 0; step < 60; ++step) {
    if (step == 20) counted_allocator::is_armed = true;
    require(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, &error), error);
    colibri_event events[8];
    size_t n_events = 0;
    require(
        colibri_scheduler_next_events(scheduler, events, sizeof(events[0]), 8, &n_events, &error),
        error);
    for (size_t i = 0; i < n_events; ++i) {
      n_tokens += events[i].kind == COLIBRI_EVENT_TOKEN && step >= 20 ? 1 : 0;
    }
  }
  counted_allocator::is_armed = false;
  const uint64_t n_allocations = counted_allocator::n_calls.exchange(0);
  colibri_model_stats stats{};
  stats.struct_size = sizeof(stats);
  require(colibri_model_get_stats(model, &stats, &error), error);
  require(colibri_scheduler_destroy(scheduler, &error), error);
  require(colibri_model_close(model, &error), error);
  std::printf("%s: %" PRIu64 " allocations for %" PRIu64 " tokens, %" PRIu64 " experts read\n",
              has_least_budget ? "least budget" : "all in memory", n_allocations, n_tokens,
              stats.expert_reads);
  return n_allocations == 0 && n_tokens == 120;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  // The counter must count: a program that misses allocations proves nothing.
  counted_allocator::is_armed = true;
  std::free(std::malloc(16));
  std::vector<int> numbers(100);
  counted_allocator::is_armed = false;
  if (counted_allocator::n_calls.exchange(0) < 1 || numbers.size() != 100) return 3;
  const bool is_quiet = allocates_nothing(argv[1], false);
  return allocates_nothing(argv[1], true) && is_quiet ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0

#include "tests/runtime/scheduler_driver.h"

#include "tests/support/catch.h"

namespace colibri::test {

StepResult SchedulerDriver::step(bool waits) {
  StepResult result;
  REQUIRE(scheduler_.step(waits, &result).is_ok());
  REQUIRE(result.n_rows == result.n_prefill_rows + result.n_decode_rows);
  ++n_steps_;
  read_events();
  const SchedulerStats stats = scheduler_.stats();
  REQUIRE(stats.n_submitted == stats.n_finished + stats.n_length + stats.n_stopped +
                                   stats.n_cancelled + stats.n_failed + stats.n_active +
                                   stats.n_queued);
  return result;
}

void SchedulerDriver::run() {
  while (true) {
    const StepResult result = step();
    if (result.n_rows == 0) return;
    REQUIRE(n_steps_ < 100000);
  }
}

void SchedulerDriver::read_events() {
  // Two at a time, so that a reader with a small buffer is what is tested.
  for (auto events = scheduler_.take_events(2); !events.empty();
       events = scheduler_.take_events(2)) {
    for (const Event &event : events) {
      Outcome &outcome = outcomes_[event.request];
      REQUIRE(outcome.n_finished == 0);
      outcome.text += event.text;
      outcome.last = event;
      if (event.kind == EventKind::kStarted) ++outcome.n_started;
      if (event.kind == EventKind::kPrefill) outcome.prefill.push_back(event.n_prompt_done);
      if (event.kind == EventKind::kToken) {
        outcome.tokens.push_back(event.token);
        outcome.logprobs.push_back(event.logprob);
        outcome.token_steps.push_back(n_steps_);
      }
      REQUIRE(event.n_generated == outcome.tokens.size());
      REQUIRE(outcome.n_started <= 1);
      if (event.kind != EventKind::kFinished) continue;
      ++outcome.n_finished;
      outcome.finish = event.finish;
      outcome.status = event.status;
    }
  }
}

SchedulerOptions make_options(uint32_t n_slots, uint32_t max_rows, uint32_t n_token_ids) {
  SchedulerOptions options;
  options.n_slots = n_slots;
  options.max_rows = max_rows;
  options.max_logits_rows = max_rows;
  options.row_budget = max_rows;
  options.prefill_chunk = max_rows;
  options.max_queued = 1024;
  options.n_token_ids = n_token_ids;
  return options;
}

RequestOptions make_request(std::vector<int32_t> prompt, uint32_t max_tokens) {
  RequestOptions options;
  options.prompt = std::move(prompt);
  options.max_tokens = max_tokens;
  return options;
}

std::vector<int32_t> make_prompt(size_t length, uint64_t seed, uint32_t n_token_ids) {
  std::vector<int32_t> prompt(length);
  for (size_t i = 0; i < length; ++i) {
    prompt[i] = static_cast<int32_t>(draw_uniform(seed, i) * n_token_ids);
  }
  return prompt;
}

}  // namespace colibri::test

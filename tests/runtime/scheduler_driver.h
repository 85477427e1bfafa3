// SPDX-License-Identifier: Apache-2.0
//
// Drives a scheduler as a host does, and keeps what each request was told. Checks on the way what
// holds for every run: each request starts at most once and ends exactly once, and counters add up.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/runtime/scheduler.h"

namespace colibri::test {

struct Outcome {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;
  std::string text;
  FinishReason finish = FinishReason::kNone;
  Status status;
  int n_started = 0;
  int n_finished = 0;
  std::vector<uint32_t> prefill;      // n_prompt_done of each progress event
  std::vector<uint64_t> token_steps;  // the step in which each token came
  Event last;
};

class SchedulerDriver {
 public:
  explicit SchedulerDriver(Scheduler &scheduler) : scheduler_(scheduler) {}

  // One step, and reads its events.
  StepResult step(bool waits = false);
  // Steps until nothing is left to do.
  void run();
  void read_events();
  const Outcome &outcome(uint64_t request) { return outcomes_[request]; }
  uint64_t n_steps() const { return n_steps_; }

 private:
  Scheduler &scheduler_;
  std::map<uint64_t, Outcome> outcomes_;
  uint64_t n_steps_ = 0;
};

// Options with every limit as wide as the slots and rows given.
SchedulerOptions make_options(uint32_t n_slots, uint32_t max_rows, uint32_t n_token_ids);

RequestOptions make_request(std::vector<int32_t> prompt, uint32_t max_tokens);

// A prompt of random tokens below `n_token_ids`.
std::vector<int32_t> make_prompt(size_t length, uint64_t seed, uint32_t n_token_ids);

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// One request through a scheduler, from flags to result. Ctrl-C stops it and keeps what was made.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "examples/colibri/colibri_raii.h"

namespace colibri::command {

// How tokens are chosen and when to end.
struct GenerationFlags {
  uint32_t n_tokens = 256;
  uint32_t context_tokens = 0;  // 0: as the library decides
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  float repetition_penalty = 0;
  uint64_t seed = 0;
  bool ignores_eos = false;
  std::vector<std::string> stop_strings;
};

void add_generation_flags(CLI::App &app, GenerationFlags *flags);

struct RequestResult {
  std::vector<int32_t> ids;
  std::string text;
  bool has_text = false;  // false: the model has no tokenizer
  int32_t finish = COLIBRI_FINISH_NONE;
  std::string failure;  // why, if finish is FAILED
  uint32_t n_prompt_reused = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

// "stop", "length", "stopped", "cancelled" or "failed".
const char *finish_name(int32_t finish) noexcept;

// Submits the prompt and steps the scheduler until the request has ended. `on_event` sees every
// event of it. Throws CallFailure if the request is not accepted.
RequestResult run_request(colibri_scheduler *scheduler, std::span<const int32_t> prompt,
                          const GenerationFlags &flags,
                          const std::function<void(const colibri_event &)> &on_event);

// Prints the event's text, or its id if there is no text, to standard output.
void print_event(const colibri_event &event);

}  // namespace colibri::command

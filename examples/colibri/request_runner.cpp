// SPDX-License-Identifier: Apache-2.0
//
// The loop every host of the scheduler has: submit, step, read events.

#include "examples/colibri/request_runner.h"

#include <array>
#include <limits>

#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

double seconds(uint64_t ns) noexcept {
  return static_cast<double>(ns) * 1e-9;
}

colibri_request_id submit(colibri_scheduler *scheduler, std::span<const int32_t> prompt,
                          const GenerationFlags &flags) {
  std::vector<const char *> stop_strings;
  for (const std::string &text : flags.stop_strings) stop_strings.push_back(text.c_str());
  colibri_sampler sampler;
  colibri_sampler_init(&sampler, sizeof sampler);
  sampler.temperature = flags.temperature;
  sampler.top_k = flags.top_k;
  sampler.top_p = flags.top_p;
  sampler.min_p = flags.min_p;
  sampler.repetition_penalty = flags.repetition_penalty;
  sampler.seed = flags.seed;
  colibri_request_options options;
  colibri_request_options_init(&options, sizeof options);
  options.prompt_ids = prompt.data();
  options.n_prompt_ids = prompt.size();
  options.max_tokens = flags.n_tokens;
  options.sampler = &sampler;
  options.ignore_model_stops = flags.ignores_eos ? 1 : 0;
  options.stop_strings = stop_strings.data();
  options.n_stop_strings = stop_strings.size();
  colibri_request_id request = 0;
  call(colibri_scheduler_submit, scheduler, &options, &request, nullptr);
  return request;
}

void take_event(const colibri_event &event, RequestResult *result) {
  if (event.kind == COLIBRI_EVENT_TOKEN) result->ids.push_back(event.token);
  if (event.text != nullptr) {
    result->has_text = true;
    result->text.append(event.text, event.text_bytes);
  }
  if (event.kind != COLIBRI_EVENT_FINISHED) return;
  result->finish = event.finish;
  if (event.message != nullptr) result->failure = event.message;
  result->n_prompt_reused = event.n_prompt_reused;
  result->prefill_seconds = seconds(event.prefill_ns);
  result->decode_seconds = seconds(event.decode_ns);
}

}  // namespace

void add_generation_flags(CLI::App &app, GenerationFlags *flags) {
  add_whole_number(app, "--tokens", {}, &flags->n_tokens,
                   "Tokens to generate at most; 0: as many as the context holds [256]");
  add_whole_number(app, "--context", {.least = 1}, &flags->context_tokens,
                   "Positions for prompt and answer [4096, or what the model has]");
  add_real_number(app, "--temperature", {0, 100}, &flags->temperature,
                  "0 always takes the most likely token [0]");
  add_whole_number(app, "--top-k", {}, &flags->top_k,
                   "Choose among the N most likely tokens; 0: all [0]");
  add_real_number(app, "--top-p", {0, 1}, &flags->top_p,
                  "Choose among the most likely tokens with this probability [1]");
  add_real_number(app, "--min-p", {0, 1}, &flags->min_p,
                  "Drop tokens below this share of the best one's probability [0]");
  add_real_number(app, "--repetition-penalty", {}, &flags->repetition_penalty,
                  "Above 1 makes recent tokens less likely [1]");
  add_whole_number(app, "--seed", {0, std::numeric_limits<uint64_t>::max()}, &flags->seed,
                   "Decides the draws when the temperature is not 0 [0]");
  app.add_option("--stop", flags->stop_strings, "End before this text; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("TEXT");
  app.add_flag("--ignore-eos", flags->ignores_eos, "Go on when the model wants to end");
}

const char *finish_name(int32_t finish) noexcept {
  switch (finish) {
    case COLIBRI_FINISH_STOP_TOKEN:
    case COLIBRI_FINISH_STOP_STRING:
      return "stop";
    case COLIBRI_FINISH_LENGTH:
      return "length";
    case COLIBRI_FINISH_STOPPED:
      return "stopped";
    case COLIBRI_FINISH_CANCELLED:
      return "cancelled";
    default:
      return "failed";
  }
}

RequestResult run_request(colibri_scheduler *scheduler, std::span<const int32_t> prompt,
                          const GenerationFlags &flags,
                          const std::function<void(const colibri_event &)> &on_event) {
  const colibri_request_id request = submit(scheduler, prompt, flags);
  RequestResult result;
  bool is_stopping = false;
  std::array<colibri_event, 16> events;
  while (result.finish == COLIBRI_FINISH_NONE) {
    if (is_interrupted() && !is_stopping) {
      is_stopping = true;
      colibri_scheduler_stop(scheduler, request, nullptr);  // it may have ended by itself meanwhile
    }
    call(colibri_scheduler_step, scheduler, COLIBRI_STEP_WAIT, nullptr);
    size_t n_events = 0;
    do {
      call(colibri_scheduler_next_events, scheduler, events.data(), sizeof events[0], events.size(),
           &n_events);
      for (const colibri_event &event : std::span(events).first(n_events)) {
        take_event(event, &result);
        on_event(event);
      }
    } while (n_events == events.size());
  }
  return result;
}

void print_event(const colibri_event &event) {
  if (event.text != nullptr) {
    if (event.text_bytes > 0) print(std::string_view(event.text, event.text_bytes));
  } else if (event.kind == COLIBRI_EVENT_TOKEN) {
    print((event.n_generated > 1 ? "," : "") + std::to_string(event.token));
  }
}

}  // namespace colibri::command

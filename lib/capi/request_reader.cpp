// SPDX-License-Identifier: Apache-2.0
//
// Defaults of colibri_scheduler_options and colibri_request_options, and what must be checked before
// anything is copied. What a request may contain is checked by check_request() of lib/runtime.

#include "lib/capi/request_reader.h"

#include <cstring>

#include "lib/capi/option_checks.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"

namespace colibri {
namespace {

constexpr uint32_t kMaxQueued = 1u << 16;
constexpr uint32_t kDefaultQueued = 1024;
constexpr size_t kMaxStopIds = 1024;

uint32_t count_free_slots(const OpenModel &open) {
  const uint32_t n_free = open.pool().n_slots() - open.pool().n_taken();
  if (n_free != 0) return n_free;
  throw_error(StatusCode::kCapacity,
              "all %u KV slots are in use; destroy one or open the model with a larger n_slots",
              open.pool().n_slots());
}

std::vector<int32_t> read_prompt(const colibri_request_options &options, const OpenModel &open) {
  require_pointer(options.prompt_ids, "prompt_ids");
  if (options.n_prompt_ids == 0) {
    throw_error(StatusCode::kArgument, "n_prompt_ids is 0; must be at least 1");
  }
  const uint32_t context_tokens = open.options().context_tokens;
  if (options.n_prompt_ids > context_tokens) {
    throw_error(StatusCode::kContext,
                "the prompt has %zu tokens and %u more are requested (0: what is left); a slot has "
                "%u positions",
                options.n_prompt_ids, options.max_tokens, context_tokens);
  }
  return std::vector<int32_t>(options.prompt_ids, options.prompt_ids + options.n_prompt_ids);
}

std::vector<std::string> read_stop_strings(const colibri_request_options &options) {
  std::vector<std::string> texts;
  if (options.n_stop_strings == 0) return texts;
  if (options.n_stop_strings > kMaxStopStrings) {
    throw_error(StatusCode::kArgument, "n_stop_strings is %zu; must be at most %zu",
                options.n_stop_strings, kMaxStopStrings);
  }
  require_pointer(options.stop_strings, "stop_strings");
  for (size_t i = 0; i < options.n_stop_strings; ++i) {
    const char *text = options.stop_strings[i];
    const size_t bytes = text == nullptr ? 0 : strnlen(text, kMaxStopStringBytes + 1);
    if (bytes == 0 || bytes > kMaxStopStringBytes) {
      throw_error(StatusCode::kArgument,
                  "stop_strings[%zu] is NULL, empty or longer than %zu bytes", i,
                  kMaxStopStringBytes);
    }
    texts.emplace_back(text, bytes);
  }
  return texts;
}

std::vector<int32_t> read_stop_ids(const colibri_request_options &options) {
  if (options.n_stop_ids == 0) return {};
  if (options.n_stop_ids > kMaxStopIds) {
    throw_error(StatusCode::kArgument, "n_stop_ids is %zu; must be at most %zu", options.n_stop_ids,
                kMaxStopIds);
  }
  require_pointer(options.stop_ids, "stop_ids");
  return std::vector<int32_t>(options.stop_ids, options.stop_ids + options.n_stop_ids);
}

SamplerParameters read_sampler(const colibri_sampler *given) {
  const colibri_sampler sampler = read_struct(given, "sampler");
  require_zero("sampler.reserved", sampler.reserved);
  SamplerParameters parameters;
  parameters.temperature = sampler.temperature;
  parameters.top_k = sampler.top_k;
  parameters.top_p = sampler.top_p;
  parameters.min_p = sampler.min_p;
  parameters.repetition_penalty = sampler.repetition_penalty;
  if (sampler.repetition_window != 0) parameters.repetition_window = sampler.repetition_window;
  parameters.seed = sampler.seed;
  return parameters;
}

}  // namespace

SchedulerOptions read_scheduler_options(const colibri_scheduler_options *given,
                                        const OpenModel &open) {
  const colibri_scheduler_options options = read_struct(given, "options");
  const OpenOptions &model = open.options();
  SchedulerOptions result;
  result.n_slots = in_range("n_slots", options.n_slots, 0, model.n_slots);
  result.max_rows = model.max_rows;
  result.max_logits_rows = model.max_logits_rows;
  result.row_budget = in_range("row_budget", options.row_budget, model.max_rows, model.max_rows);
  result.prefill_chunk =
      in_range("prefill_chunk", options.prefill_chunk, result.row_budget, result.row_budget);
  if (options.decode_reserve >= result.row_budget) {
    throw_error(StatusCode::kArgument, "decode_reserve is %u; must be 0..%u, below row_budget",
                options.decode_reserve, result.row_budget - 1);
  }
  result.decode_reserve = options.decode_reserve;
  result.max_queued = in_range("max_queued", options.max_queued, kDefaultQueued, kMaxQueued);
  result.model_stop_ids = open.stop_ids();
  result.n_token_ids = open.n_token_ids();
  if (result.n_slots == 0) result.n_slots = count_free_slots(open);
  return result;
}

RequestOptions read_request(const colibri_request_options *given, const OpenModel &open) {
  require_pointer(given, "options");
  const colibri_request_options options = read_struct(given, "options");
  RequestOptions request;
  request.prompt = read_prompt(options, open);
  request.max_tokens = options.max_tokens;
  request.sampler = read_sampler(options.sampler);
  request.stop_ids = read_stop_ids(options);
  request.stop_strings = read_stop_strings(options);
  request.ignores_model_stops = read_flag("ignore_model_stops", options.ignore_model_stops);
  request.wants_logprobs = read_flag("wants_logprobs", options.wants_logprobs);
  request.priority = options.priority;
  request.user_data = options.user_data;
  require_zero("reserved", options.reserved);
  return request;
}

}  // namespace colibri

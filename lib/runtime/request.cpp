// SPDX-License-Identifier: Apache-2.0
//
// Checks of a request happen here, before it is queued; after that only a failing read, damaged
// numbers or refused memory can fail it.

#include "lib/runtime/request.h"

#include <algorithm>
#include <utility>

#include "lib/base/utf8.h"

namespace colibri {
namespace {

Status check_ids(const char *what, std::span<const int32_t> ids,
                 uint32_t vocabulary_size) noexcept {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < vocabulary_size) continue;
    return make_status(StatusCode::kArgument, "request: %s[%zu] is %d; must be 0..%u", what, i,
                       ids[i], vocabulary_size - 1);
  }
  return Status();
}

Status check_stop_strings(std::span<const std::string> strings, bool has_tokenizer) noexcept {
  if (strings.empty()) return Status();
  if (!has_tokenizer) {
    return make_status(StatusCode::kArgument,
                       "request: stop_strings need a tokenizer, and the model has none; use "
                       "stop_ids");
  }
  if (strings.size() > kMaxStopStrings) {
    return make_status(StatusCode::kArgument, "request: n_stop_strings is %zu; at most %zu",
                       strings.size(), kMaxStopStrings);
  }
  for (size_t i = 0; i < strings.size(); ++i) {
    if (strings[i].empty() || strings[i].size() > kMaxStopStringBytes) {
      return make_status(StatusCode::kArgument,
                         "request: stop_strings[%zu] has %zu bytes; must be 1..%zu", i,
                         strings[i].size(), kMaxStopStringBytes);
    }
    // Text is delivered as UTF-8, so such a string could never be met.
    const size_t n_valid = count_valid_utf8(strings[i]);
    if (n_valid != strings[i].size()) {
      return make_status(StatusCode::kArgument,
                         "request: stop_strings[%zu] is not UTF-8 at byte %zu", i, n_valid);
    }
  }
  return Status();
}

// All sums in 64 bits: max_tokens is any number of the caller.
Status fit_context(const RequestOptions &options, uint32_t capacity,
                   uint32_t *max_tokens) noexcept {
  const uint64_t n_prompt = options.prompt.size();
  if (n_prompt >= capacity) {
    return make_status(StatusCode::kContext,
                       "request: the prompt has %llu tokens, %u more are requested, and the slot "
                       "has %u positions: no room to generate; shorten the prompt or open the "
                       "model with more context",
                       static_cast<unsigned long long>(n_prompt), options.max_tokens, capacity);
  }
  const auto available = static_cast<uint32_t>(capacity - n_prompt);
  *max_tokens = options.max_tokens == 0 ? available : std::min(options.max_tokens, available);
  return Status();
}

}  // namespace

Status check_request(const RequestOptions &options, const RequestLimits &limits,
                     uint32_t *max_tokens) noexcept {
  if (options.prompt.empty()) {
    return make_status(StatusCode::kArgument, "request: n_prompt_ids is 0; must be at least 1");
  }
  Status status = check_sampler(options.sampler);
  if (status.is_ok()) status = check_ids("prompt_ids", options.prompt, limits.vocabulary_size);
  if (status.is_ok()) status = check_ids("stop_ids", options.stop_ids, limits.vocabulary_size);
  if (status.is_ok()) status = check_stop_strings(options.stop_strings, limits.has_tokenizer);
  if (status.is_ok()) status = fit_context(options, limits.capacity, max_tokens);
  return status;
}

TextStream::TextStream(const Tokenizer *tokenizer, std::span<const std::string> stop_strings)
    : matcher_(stop_strings) {
  if (tokenizer == nullptr) return;
  decoder_.emplace(*tokenizer, true);
  piece_.reserve(StopMatcher::kUsualPieceBytes);
}

bool TextStream::push(int32_t token, std::string *text) {
  if (!decoder_) return false;
  piece_.clear();
  decoder_->push(token, &piece_);
  return matcher_.push(piece_, text);
}

void TextStream::flush(std::string *text) {
  if (!decoder_) return;
  piece_.clear();
  decoder_->flush(&piece_);
  // What becomes visible at the very end may still complete a stop string; it is cut like any
  // other.
  if (!matcher_.push(piece_, text)) matcher_.flush(text);
}

Request::Request(RequestOptions checked_options, uint32_t effective_max_tokens,
                 std::span<const int32_t> model_stop_ids, const Tokenizer *tokenizer)
    : options(std::move(checked_options)),
      max_tokens(effective_max_tokens),
      stop_ids(options.stop_ids),
      text(tokenizer, options.stop_strings) {
  if (!options.ignores_model_stops) {
    stop_ids.insert(stop_ids.end(), model_stop_ids.begin(), model_stop_ids.end());
  }
  std::sort(stop_ids.begin(), stop_ids.end());
}

bool Request::is_stop(int32_t token) const noexcept {
  return std::binary_search(stop_ids.begin(), stop_ids.end(), token);
}

uint32_t Request::n_prompt_done() const noexcept {
  return slot == nullptr ? 0 : std::min(slot->length(), n_prompt());
}

}  // namespace colibri

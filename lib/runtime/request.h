// SPDX-License-Identifier: Apache-2.0
//
// Request: what one caller wants, checked, and how far it has come. TextStream: its tokens as text.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/runtime/kv_pool.h"
#include "lib/runtime/sampler.h"
#include "lib/runtime/stop_matcher.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

constexpr size_t kMaxStopStrings = 64;
constexpr size_t kMaxStopStringBytes = 1024;

struct RequestOptions {
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 0;  // 0: what the context leaves
  SamplerParameters sampler;
  std::vector<int32_t> stop_ids;  // beside the model's own
  std::vector<std::string> stop_strings;
  bool ignores_model_stops = false;
  bool wants_logprobs = false;
  int32_t priority = 0;
  uint64_t user_data = 0;
};

// What requests are checked against.
struct RequestLimits {
  uint32_t vocabulary_size = 0;
  uint32_t capacity = 0;  // positions of a slot
  bool has_tokenizer = false;
};

// kArgument (field, value, range), kContext (prompt, requested and available positions). A request
// needs a position for every token of its prompt and for every token it may generate; *max_tokens
// is what it may generate after clamping to the slot. (The last generated token is never computed;
// its position stays reserved for it all the same, so that prompt plus output always fit a slot.)
Status check_request(const RequestOptions &options, const RequestLimits &limits,
                     uint32_t *max_tokens) noexcept;

// Generated tokens to text that can be shown: whole characters, without stop strings. The
// concatenation is Tokenizer::decode() of the tokens without special ones, cut before a stop
// string.
class TextStream {
 public:
  // tokenizer may be nullptr: no text then. Throws std::bad_alloc.
  TextStream(const Tokenizer *tokenizer, std::span<const std::string> stop_strings);

  bool has_text() const noexcept { return decoder_.has_value(); }
  // Appends what this token makes visible; true when a stop string is complete. May throw
  // std::bad_alloc.
  bool push(int32_t token, std::string *text);
  // Appends what was held back, at the end of the request. May throw std::bad_alloc.
  void flush(std::string *text);

 private:
  std::optional<StreamDecoder> decoder_;
  StopMatcher matcher_;
  std::string piece_;  // reused
};

struct Request {
  // Throws std::bad_alloc. The options were checked.
  Request(RequestOptions checked_options, uint32_t effective_max_tokens,
          std::span<const int32_t> model_stop_ids, const Tokenizer *tokenizer);

  bool is_stop(int32_t token) const noexcept;
  uint32_t n_prompt() const noexcept { return static_cast<uint32_t>(options.prompt.size()); }
  // Positions of the prompt that are in the slot.
  uint32_t n_prompt_done() const noexcept;
  bool is_decoding() const noexcept { return n_generated > 0; }

  const RequestOptions options;
  const uint32_t max_tokens;
  std::vector<int32_t> stop_ids;  // all that count, ascending
  TextStream text;
  uint64_t id = 0;

  // Wishes of other threads; guarded by the mutex of the RequestBook.
  bool wants_cancel = false;
  bool wants_stop = false;
  bool wants_pause = false;

  // From here on only the thread that steps looks.
  KvSlot *slot = nullptr;     // nullptr while queued
  uint64_t serial = 0;        // number of its admission
  bool is_cancelled = false;  // the wishes as this step read them
  bool is_stopped = false;
  bool is_paused = false;
  uint32_t n_reused = 0;
  uint32_t n_generated = 0;
  int32_t last_token = -1;     // generated, not yet in the slot
  uint32_t first_row = 0;      // of this step's batch
  uint32_t n_rows = 0;         // in this step
  uint64_t admitted_ns = 0;    // steady clock
  uint64_t prompt_end_ns = 0;  // 0 before
};

}  // namespace colibri

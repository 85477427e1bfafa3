// SPDX-License-Identifier: Apache-2.0
//
// Event: one thing that happened to one request. EventQueue: events between the step that makes
// them and the caller that reads them. Used objects are reused with the memory of their texts, so
// steady work allocates nothing.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace colibri {

// The numbers are those of COLIBRI_EVENT_* and COLIBRI_FINISH_*.
enum class EventKind : int32_t { kToken = 1, kPrefill = 2, kFinished = 3, kStarted = 4 };
enum class FinishReason : int32_t {
  kNone = 0,
  kStopToken = 1,
  kLength = 2,
  kStopString = 3,
  kStopped = 4,
  kCancelled = 5,
  kFailed = 6
};

struct Event {
  EventKind kind = EventKind::kToken;
  int32_t token = -1;
  uint64_t request = 0;
  uint64_t user_data = 0;
  std::string text;       // whole characters
  bool has_text = false;  // kToken and kFinished with a tokenizer, also when the text is empty
  FinishReason finish = FinishReason::kNone;
  Status status;
  float logprob = 0;
  uint32_t n_prompt_done = 0, n_prompt = 0, n_prompt_reused = 0, n_generated = 0;
  uint64_t prefill_ns = 0, decode_ns = 0;
};

class EventQueue {
 public:
  static constexpr size_t kUsualTextBytes = 64;  // reserved in every event

  // Throws std::bad_alloc.
  explicit EventQueue(size_t capacity);

  // Makes room for `n` more events. False if memory is refused; the queue is as before then.
  bool reserve(size_t n) noexcept;
  // A new last event with all fields at their start. Room was reserved.
  Event &push() noexcept;
  size_t size() const noexcept { return size_; }
  size_t free_room() const noexcept { return ring_.size() - size_; }
  // Takes up to `capacity` of the oldest events; the list lives until the next call. May give fewer
  // than waits when memory is refused, never none.
  std::span<const Event> take(size_t capacity) noexcept;

 private:
  std::vector<Event> ring_;
  size_t first_ = 0;
  size_t size_ = 0;
  std::vector<Event> taken_;
};

}  // namespace colibri

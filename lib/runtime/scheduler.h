// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: requests to batches, one step at a time. Each request ends exactly once. Nothing here starts a thread.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/model/model.h"
#include "lib/runtime/kv_pool.h"
#include "lib/runtime/sampler.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

struct SchedulerOptions {
  uint32_t n_slots = 0;          // all fields resolved, no defaults here
  uint32_t max_rows = 0;         // of the batch
  uint32_t max_logits_rows = 0;
  uint32_t row_budget = 0;
  uint32_t prefill_chunk = 0;
  uint32_t decode_reserve = 0;
  uint32_t max_queued = 0;
  std::vector<int32_t> model_stop_ids;
  uint32_t n_token_ids = 0;      // sampling range
};

struct RequestOptions {
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 0;       // 0: what the context leaves
  SamplerParameters sampler;
  std::vector<int32_t> stop_ids;
  std::vector<std::string> stop_strings;
  bool ignores_model_stops = false;
  bool wants_logprobs = false;
  int32_t priority = 0;
  uint64_t user_data = 0;
};

enum class EventKind : int32_t { kToken = 1, kPrefill = 2, kFinished = 3, kStarted = 4 };
enum class FinishReason : int32_t {
  kNone = 0, kStopToken = 1, kLength = 2, kStopString = 3, kStopped = 4, kCancelled = 5, kFailed = 6
};

struct Event {
  EventKind kind = EventKind::kToken;
  int32_t token = -1;
  uint64_t request = 0;
  uint64_t user_data = 0;
  std::string text;
  bool has_text = false;
  FinishReason finish = FinishReason::kNone;
  Status status;
  float logprob = 0;
  uint32_t n_prompt_done = 0, n_prompt = 0, n_prompt_reused = 0, n_generated = 0;
  uint64_t prefill_ns = 0, decode_ns = 0;
};

struct StepResult {
  uint32_t n_rows = 0, n_prefill_rows = 0, n_decode_rows = 0, n_active = 0, n_queued = 0, n_events = 0;
  uint64_t elapsed_ns = 0;
};

struct SchedulerStats {
  uint32_t n_active = 0, n_queued = 0;
  uint64_t n_submitted = 0, n_rejected = 0, n_finished = 0, n_length = 0, n_stopped = 0, n_cancelled = 0, n_failed = 0;
  uint64_t n_steps = 0, n_prefill_rows = 0, n_decode_rows = 0, n_reused_positions = 0, n_tokens = 0;
};

class Scheduler {
 public:
  // Takes options.n_slots slots from the pool and gives them back at the end. tokenizer may be nullptr (no text, no stop
  // strings). All must outlive the scheduler. Throws Error: kCapacity, kMemory.
  Scheduler(const Model &model, KvPool &pool, const Tokenizer *tokenizer, const SchedulerOptions &options);
  ~Scheduler();

  // Thread-safe, also during step(). Throws Error as colibri_scheduler_submit() documents.
  uint64_t submit(RequestOptions options, uint32_t *effective_max_tokens);
  Status cancel(uint64_t request) noexcept;   // thread-safe
  Status stop(uint64_t request) noexcept;     // thread-safe
  Status pause(uint64_t request) noexcept;    // thread-safe
  Status resume(uint64_t request) noexcept;   // thread-safe
  void wake() noexcept;                       // thread-safe

  // One step; see colibri_scheduler_step(). One call at a time.
  Status step(bool waits, StepResult *result) noexcept;
  // Moves up to `capacity` waiting events into the list handed out, which lives until the next call.
  std::span<const Event> take_events(size_t capacity) noexcept;
  SchedulerStats stats() const noexcept;      // thread-safe

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri

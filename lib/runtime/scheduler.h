// SPDX-License-Identifier: Apache-2.0
//
// Scheduler: requests to batches, one step at a time. Each request ends exactly once. Nothing here
// starts a thread.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/status.h"
#include "lib/model/model.h"
#include "lib/runtime/event_queue.h"
#include "lib/runtime/kv_pool.h"
#include "lib/runtime/request.h"
#include "lib/runtime/request_book.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

struct SchedulerOptions {
  uint32_t n_slots = 0;          // all fields resolved, no defaults here
  uint32_t max_rows = 0;         // of the batch
  uint32_t max_logits_rows = 0;  // 1 .. max_rows
  uint32_t row_budget = 0;       // 1 .. max_rows
  uint32_t prefill_chunk = 0;    // 1 .. row_budget
  uint32_t decode_reserve = 0;   // below row_budget
  uint32_t max_queued = 0;
  std::vector<int32_t> model_stop_ids;
  uint32_t n_token_ids = 0;  // sampling range
};

struct StepResult {
  uint32_t n_rows = 0, n_prefill_rows = 0, n_decode_rows = 0, n_active = 0, n_queued = 0,
           n_events = 0;
  uint64_t elapsed_ns = 0;  // sleep before the step not counted
};

class Scheduler {
 public:
  // Takes options.n_slots slots from the pool and gives them back at the end. tokenizer may be
  // nullptr (no text, no stop strings). All must outlive the scheduler. Throws Error: kArgument,
  // kCapacity, kMemory.
  Scheduler(const Model &model, KvPool &pool, const Tokenizer *tokenizer,
            const SchedulerOptions &options);
  ~Scheduler();

  // Thread-safe, also during step(). Throws Error as colibri_scheduler_submit() documents; nothing
  // has changed then but the count of rejected requests. See check_request() for how max_tokens is
  // clamped.
  uint64_t submit(RequestOptions options, uint32_t *effective_max_tokens);
  Status cancel(uint64_t request) noexcept;  // thread-safe
  Status stop(uint64_t request) noexcept;    // thread-safe
  Status pause(uint64_t request) noexcept;   // thread-safe
  Status resume(uint64_t request) noexcept;  // thread-safe
  void wake() noexcept;                      // thread-safe

  // One step; see colibri_scheduler_step(). One call at a time. With `waits` it sleeps first if
  // there is neither work nor an event to read. kMemory: room for the step's events was refused;
  // nothing happened, and a later step goes on.
  Status step(bool waits, StepResult *result) noexcept;
  // Moves up to `capacity` waiting events into the list handed out, which lives until the next
  // call.
  std::span<const Event> take_events(size_t capacity) noexcept;
  SchedulerStats stats() const noexcept;  // thread-safe

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri

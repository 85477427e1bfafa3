// SPDX-License-Identifier: Apache-2.0
//
// RequestBook: the requests of one scheduler that have not ended, their order, and the counters. It
// is where threads that submit or cancel meet the thread that steps: every method takes the one
// mutex, and a request changes its list and its counter in the same critical section, so the
// counters always add up.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lib/runtime/event_queue.h"
#include "lib/runtime/request.h"
#include "lib/runtime/slot_table.h"

namespace colibri {

struct SchedulerStats {
  uint32_t n_active = 0, n_queued = 0;
  uint64_t n_submitted = 0, n_rejected = 0;
  uint64_t n_finished = 0, n_length = 0, n_stopped = 0, n_cancelled = 0, n_failed = 0;
  uint64_t n_steps = 0, n_prefill_rows = 0, n_decode_rows = 0;
  uint64_t n_reused_positions = 0, n_tokens = 0;
};

class RequestBook {
 public:
  enum class Wish : uint8_t { kCancel, kStop, kPause, kResume };

  // Throws std::bad_alloc.
  RequestBook(uint32_t n_slots, uint32_t max_queued);

  // Any thread. Gives the request its number and queues it: higher priority first, then first come
  // first served. Throws Error(kCapacity), std::bad_alloc; the book is as before then.
  uint64_t add(std::unique_ptr<Request> request);
  void count_rejected() noexcept;
  // kNotFound if no such request is queued or active.
  Status record_wish(uint64_t id, Wish wish) noexcept;
  void wake() noexcept;
  SchedulerStats stats() const noexcept;

  // The thread that steps, from here on. Sleeps until there is work, or another thread added a
  // request, recorded a wish or called wake(); the last also counts when it came before.
  void wait_for_work() noexcept;
  size_t n_withdrawn() const noexcept;
  // Takes out one queued request that is to be cancelled or stopped, and counts it; nullptr if
  // there is none.
  std::unique_ptr<Request> take_withdrawn(FinishReason *reason) noexcept;
  // Copies the wishes of active requests to where the step reads them.
  void read_wishes() noexcept;
  // Makes queued requests active, best first, while slots are left and a request is not paused.
  // Returns how many; they stand at the end of active().
  size_t admit() noexcept;
  // Prompts of queued requests, best first, as many as fit; they live until the next admit() or
  // take_withdrawn().
  size_t list_queued(std::span<TokenSpan> prompts) const noexcept;
  // In order of admission. Only the thread that steps changes the list.
  std::span<const std::unique_ptr<Request>> active() const noexcept { return active_; }
  // Takes out an active request and counts it.
  std::unique_ptr<Request> retire(const Request &request, FinishReason reason) noexcept;
  void count_reused(uint32_t n_positions) noexcept;
  void count_step(uint32_t n_prefill_rows, uint32_t n_decode_rows, uint32_t n_tokens) noexcept;

 private:
  bool has_work() const noexcept;
  Request *find(uint64_t id) noexcept;
  void count_end(FinishReason reason) noexcept;

  const uint32_t n_slots_;
  const uint32_t max_queued_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Request>> queued_;  // best first
  std::vector<std::unique_ptr<Request>> active_;  // in order of admission, reserved to n_slots
  SchedulerStats counts_;   // n_active and n_queued are the sizes of the lists
  uint64_t n_changes_ = 0;  // additions and wishes
  uint64_t n_admitted_ = 0;
  bool is_woken_ = false;
};

}  // namespace colibri

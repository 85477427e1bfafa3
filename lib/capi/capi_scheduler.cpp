// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/scheduler.h: many requests, driven by the host. Functions that may run beside a
// step only visit the handle; the runtime's scheduler has its own lock for what they touch.

#include "colibri/scheduler.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/request_reader.h"
#include "lib/capi/sized_struct.h"

namespace colibri {
namespace {

colibri_event to_public(const Event &event) noexcept {
  colibri_event result{};
  result.kind = static_cast<int32_t>(event.kind);
  result.token = event.token;
  result.request = event.request;
  result.user_data = event.user_data;
  result.text = event.has_text ? event.text.data() : nullptr;
  result.text_bytes = static_cast<uint32_t>(event.text.size());
  result.finish = static_cast<int32_t>(event.finish);
  result.status = static_cast<colibri_status>(event.status.code());
  result.logprob = event.logprob;
  result.n_prompt_done = event.n_prompt_done;
  result.n_prompt = event.n_prompt;
  result.n_prompt_reused = event.n_prompt_reused;
  result.n_generated = event.n_generated;
  result.prefill_ns = event.prefill_ns;
  result.decode_ns = event.decode_ns;
  result.message = event.finish == FinishReason::kFailed ? event.status.message() : nullptr;
  return result;
}

colibri_step_result to_public(const StepResult &step) noexcept {
  colibri_step_result result{};
  result.n_rows = step.n_rows;
  result.n_prefill_rows = step.n_prefill_rows;
  result.n_decode_rows = step.n_decode_rows;
  result.n_active = step.n_active;
  result.n_queued = step.n_queued;
  result.n_events = step.n_events;
  result.elapsed_ns = step.elapsed_ns;
  return result;
}

bool read_step_mode(colibri_step_mode mode) {
  if (mode == COLIBRI_STEP_NOWAIT || mode == COLIBRI_STEP_WAIT) return mode == COLIBRI_STEP_WAIT;
  throw_error(StatusCode::kArgument, "mode is %d; must be 0 (no wait) or 1 (wait)", mode);
}

// Counts a submission as rejected unless it is accepted by what stands before the runtime.
class RejectionCount {
 public:
  explicit RejectionCount(std::atomic<uint64_t> &count) noexcept : count_(count) {}
  ~RejectionCount() { count_ += is_read_ ? 0 : 1; }
  RejectionCount(const RejectionCount &) = delete;
  RejectionCount &operator=(const RejectionCount &) = delete;

  void set_read() noexcept { is_read_ = true; }

 private:
  std::atomic<uint64_t> &count_;
  bool is_read_ = false;
};

// Calls that name one request share all but the method.
colibri_status change_request(colibri_scheduler *scheduler, colibri_request_id request,
                              Status (Scheduler::*change)(uint64_t) noexcept,
                              colibri_error *error) noexcept {
  return guard(error, [&] {
    const Visit<colibri_scheduler> use(scheduler, "scheduler");
    return (use->scheduler.*change)(request);
  });
}

}  // namespace
}  // namespace colibri

void colibri_scheduler_options_init(colibri_scheduler_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

void colibri_sampler_init(colibri_sampler *sampler, size_t struct_size) {
  colibri::fill_defaults(sampler, struct_size);
}

void colibri_request_options_init(colibri_request_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

colibri_status colibri_scheduler_create(colibri_model *model,
                                        const colibri_scheduler_options *options,
                                        colibri_scheduler **scheduler, colibri_error *error) {
  if (scheduler != nullptr) *scheduler = nullptr;
  return colibri::guard(error, [&] {
    const colibri::Visit<colibri_model> use(model, "model");
    colibri::require_pointer(scheduler, "scheduler");
    const colibri::SchedulerOptions resolved = colibri::read_scheduler_options(options, use->open);
    *scheduler = std::make_unique<colibri_scheduler>(*use, resolved).release();
  });
}

colibri_status colibri_scheduler_destroy(colibri_scheduler *scheduler, colibri_error *error) {
  return colibri::guard(error, [&] {
    if (scheduler == nullptr) return;
    colibri::Close<colibri_scheduler> use(scheduler, "scheduler");
    use.take().reset();
  });
}

colibri_status colibri_scheduler_submit(colibri_scheduler *scheduler,
                                        const colibri_request_options *options,
                                        colibri_request_id *request, uint32_t *effective_max_tokens,
                                        colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<colibri_scheduler> use(scheduler, "scheduler");
    colibri::require_pointer(request, "request");
    colibri::RejectionCount rejection(use->n_rejected);
    colibri::RequestOptions read = colibri::read_request(options, use->model.open);
    rejection.set_read();
    uint32_t max_tokens = 0;
    *request = use->scheduler.submit(std::move(read), &max_tokens);
    if (effective_max_tokens != nullptr) *effective_max_tokens = max_tokens;
  });
}

colibri_status colibri_scheduler_step(colibri_scheduler *scheduler, colibri_step_mode mode,
                                      colibri_step_result *result, colibri_error *error) {
  return colibri::guard_computing(error, [&]() -> colibri::Status {
    const colibri::Write<colibri_scheduler> use(scheduler, "scheduler");
    const bool waits = colibri::read_step_mode(mode);
    const uint32_t out_bytes = result == nullptr ? 0 : colibri::check_result(result, "result");
    colibri::StepResult step;
    const colibri::Status status = use->scheduler.step(waits, &step);
    use->model.count_pass(step.n_rows);
    if (status.is_ok() && result != nullptr) {
      colibri::write_result(colibri::to_public(step), out_bytes, result);
    }
    return status;
  });
}

colibri_status colibri_scheduler_wake(colibri_scheduler *scheduler, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<colibri_scheduler> use(scheduler, "scheduler");
    use->scheduler.wake();
  });
}

colibri_status colibri_scheduler_next_events(colibri_scheduler *scheduler, colibri_event *events,
                                             size_t event_size, size_t capacity, size_t *n_events,
                                             colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_scheduler> use(scheduler, "scheduler");
    colibri::require_pointer(n_events, "n_events");
    if (events == nullptr && capacity != 0) {
      colibri::throw_error(colibri::StatusCode::kArgument, "events is NULL with capacity %zu",
                           capacity);
    }
    constexpr size_t kSmallest = colibri::kFirstVersionBytes<colibri_event>;
    if (event_size < kSmallest || event_size > colibri::kLargestStructBytes) {
      colibri::throw_error(colibri::StatusCode::kArgument,
                           "event_size is %zu; pass sizeof(colibri_event), at least %zu",
                           event_size, kSmallest);
    }
    const std::span<const colibri::Event> taken = use->scheduler.take_events(capacity);
    char *place = reinterpret_cast<char *>(events);
    for (const colibri::Event &event : taken) {
      const colibri_event converted = colibri::to_public(event);
      colibri::write_sized(&converted, sizeof(converted), event_size, place);
      place += event_size;
    }
    *n_events = taken.size();
  });
}

colibri_status colibri_scheduler_stop(colibri_scheduler *scheduler, colibri_request_id request,
                                      colibri_error *error) {
  return colibri::change_request(scheduler, request, &colibri::Scheduler::stop, error);
}

colibri_status colibri_scheduler_cancel(colibri_scheduler *scheduler, colibri_request_id request,
                                        colibri_error *error) {
  return colibri::change_request(scheduler, request, &colibri::Scheduler::cancel, error);
}

colibri_status colibri_scheduler_pause(colibri_scheduler *scheduler, colibri_request_id request,
                                       colibri_error *error) {
  return colibri::change_request(scheduler, request, &colibri::Scheduler::pause, error);
}

colibri_status colibri_scheduler_resume(colibri_scheduler *scheduler, colibri_request_id request,
                                        colibri_error *error) {
  return colibri::change_request(scheduler, request, &colibri::Scheduler::resume, error);
}

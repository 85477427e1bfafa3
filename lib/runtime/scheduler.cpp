// SPDX-License-Identifier: Apache-2.0
//
// The order of one step. What other threads touch is in RequestBook, which rows are computed is
// decided in row_plan.cpp, which slot a request gets in slot_table.cpp. Nothing here throws: room
// for every event is made before the step does anything, and a text that cannot grow fails the one
// request it belongs to.

#include "lib/runtime/scheduler.h"

#include <chrono>
#include <exception>
#include <utility>

#include "lib/runtime/batch.h"
#include "lib/runtime/row_plan.h"
#include "lib/runtime/slot_table.h"

namespace colibri {
namespace {

// A slot's request may end, and the next one start, make progress, give a token and end, all in one
// step.
constexpr size_t kEventsPerSlot = 5;
// So many waiting prompts have a say in which slot another one gets.
constexpr size_t kMaxRivals = 16;
// In place of a request's first row: the batch did not take its rows.
constexpr uint32_t kRefused = UINT32_MAX;

uint64_t read_clock_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

const SchedulerOptions &check_options(const SchedulerOptions &options) {
  const auto require = [](const char *field, uint32_t value, uint32_t low, uint32_t high) {
    if (value >= low && value <= high) return;
    throw_error(StatusCode::kArgument, "scheduler: %s is %u; must be %u..%u", field, value, low,
                high);
  };
  require("n_slots", options.n_slots, 1, UINT32_MAX);
  require("max_rows", options.max_rows, 1, UINT32_MAX);
  require("max_logits_rows", options.max_logits_rows, 1, options.max_rows);
  require("row_budget", options.row_budget, 1, options.max_rows);
  require("prefill_chunk", options.prefill_chunk, 1, options.row_budget);
  require("decode_reserve", options.decode_reserve, 0, options.row_budget - 1);
  require("max_queued", options.max_queued, 1, UINT32_MAX);
  return options;
}

}  // namespace

struct Scheduler::Impl {
  Impl(const Model &its_model, KvPool &pool, const Tokenizer *its_tokenizer,
       const SchedulerOptions &its_options);

  std::unique_ptr<Request> make_request(RequestOptions request_options, uint32_t *max_tokens) const;

  // The parts of a step, in their order.
  bool make_room_for_events() noexcept;
  void end_withdrawn() noexcept;
  void admit_queued() noexcept;
  RowTotals choose_rows() noexcept;
  void run_pass() noexcept;
  void take_results() noexcept;

  void take_result(Request &request) noexcept;
  void sample(Request &request) noexcept;
  void take_token(Request &request, const Sampler::Choice &choice) noexcept;
  Event &push_event(const Request &request, EventKind kind) noexcept;
  void end(Request &request, FinishReason reason, const Status &status = Status()) noexcept;
  FinishReason push_finished(Request &request, FinishReason reason, const Status &status) noexcept;

  const Model &model;
  const Tokenizer *tokenizer;
  const SchedulerOptions options;
  const RowLimits limits;
  RequestBook book;
  SlotTable slots;
  Batch batch;
  Sampler sampler;
  EventQueue events;
  std::vector<RowDemand> demands;   // one per active request, reserved
  std::vector<Request *> stepping;  // active requests with rows in this step, reserved
  std::vector<TokenSpan> rivals;    // reserved
  uint64_t turn = 0;                // of plan_rows
  uint32_t n_tokens = 0;            // generated in this step
  uint64_t now_ns = 0;              // at the start of the step, then behind the pass
};

Scheduler::Impl::Impl(const Model &its_model, KvPool &pool, const Tokenizer *its_tokenizer,
                      const SchedulerOptions &its_options)
    : model(its_model),
      tokenizer(its_tokenizer),
      options(check_options(its_options)),
      limits{options.row_budget, options.prefill_chunk, options.decode_reserve,
             options.max_logits_rows},
      book(options.n_slots, options.max_queued),
      slots(pool, options.n_slots),
      batch(model, options.max_rows, options.max_logits_rows),
      sampler(model.config().vocabulary_size, options.n_token_ids),
      events(options.n_slots * kEventsPerSlot) {
  demands.reserve(options.n_slots);
  stepping.reserve(options.n_slots);
  rivals.reserve(kMaxRivals);
}

std::unique_ptr<Request> Scheduler::Impl::make_request(RequestOptions request_options,
                                                       uint32_t *max_tokens) const {
  const RequestLimits request_limits{model.config().vocabulary_size, model.kv_layout().capacity(),
                                     tokenizer != nullptr};
  throw_if_failed(check_request(request_options, request_limits, max_tokens));
  return std::make_unique<Request>(std::move(request_options), *max_tokens, options.model_stop_ids,
                                   tokenizer);
}

bool Scheduler::Impl::make_room_for_events() noexcept {
  return events.reserve(book.n_withdrawn() + options.n_slots * kEventsPerSlot);
}

// Requests withdrawn after make_room_for_events() wait for the next step if there is no room for
// them.
void Scheduler::Impl::end_withdrawn() noexcept {
  const size_t kept = options.n_slots * kEventsPerSlot;
  FinishReason reason = FinishReason::kNone;
  while (events.free_room() > kept) {
    const std::unique_ptr<Request> request = book.take_withdrawn(&reason);
    if (request == nullptr) break;
    push_finished(*request, reason, Status());
  }
  book.read_wishes();
  // Backwards: ending a request takes it off the list.
  for (size_t i = book.active().size(); i-- > 0;) {
    Request &request = *book.active()[i];
    if (request.is_cancelled) {
      end(request, FinishReason::kCancelled);
    } else if (request.is_stopped) {
      end(request, FinishReason::kStopped);
    }
  }
}

void Scheduler::Impl::admit_queued() noexcept {
  const size_t n_new = book.admit();
  const size_t n_active = book.active().size();
  for (size_t i = n_active - n_new; i < n_active; ++i) {
    Request &request = *book.active()[i];
    // Those that get a slot after it in this step come first among its rivals, then the queue.
    rivals.clear();
    for (size_t j = i + 1; j < n_active && rivals.size() < kMaxRivals; ++j) {
      rivals.push_back(book.active()[j]->options.prompt);
    }
    const size_t n_admitted = rivals.size();
    rivals.resize(kMaxRivals);
    rivals.resize(n_admitted + book.list_queued(std::span(rivals).subspan(n_admitted)));
    const SlotTable::Placement placement = slots.place(request.options.prompt, rivals);
    request.slot = placement.slot;
    request.n_reused = placement.n_reused;
    request.admitted_ns = now_ns;
    book.count_reused(placement.n_reused);
    push_event(request, EventKind::kStarted);
  }
}

RowTotals Scheduler::Impl::choose_rows() noexcept {
  demands.clear();
  for (const auto &request : book.active()) {
    RowDemand demand;
    demand.serial = request->serial;
    if (!request->is_paused) {
      demand.is_decoding = request->is_decoding();
      demand.n_prompt_left = request->n_prompt() - request->n_prompt_done();
    }
    demands.push_back(demand);
  }
  return plan_rows(limits, demands, &turn);
}

void Scheduler::Impl::run_pass() noexcept {
  batch.clear();
  stepping.clear();
  for (size_t i = 0; i < demands.size(); ++i) {
    Request &request = *book.active()[i];
    request.n_rows = demands[i].n_rows;
    if (request.n_rows == 0) continue;
    TokenSpan tokens(&request.last_token, 1);
    LogitsMode mode = LogitsMode::kLast;
    if (!request.is_decoding()) {
      const uint32_t n_done = request.n_prompt_done();
      tokens = TokenSpan(request.options.prompt).subspan(n_done, request.n_rows);
      if (n_done + request.n_rows < request.n_prompt()) mode = LogitsMode::kNone;
    }
    const Status status = batch.add(*request.slot, tokens, mode, &request.first_row);
    // The plan and the checks of submit leave no reason to refuse; should there be one, it ends
    // this request alone.
    if (!status.is_ok()) request.first_row = kRefused;
    stepping.push_back(&request);
  }
  // A failed row is read from the row itself.
  (void)batch.decode();
  now_ns = read_clock_ns();
}

void Scheduler::Impl::take_results() noexcept {
  n_tokens = 0;
  for (Request *request : stepping) take_result(*request);
}

void Scheduler::Impl::take_result(Request &request) noexcept {
  if (request.first_row == kRefused) {
    end(request, FinishReason::kFailed,
        make_status(StatusCode::kInternal, "the batch refused rows that were planned"));
    return;
  }
  for (uint32_t row = request.first_row; row < request.first_row + request.n_rows; ++row) {
    const Status &status = batch.row_status(row);
    if (status.is_ok()) continue;
    // Entries behind numbers that are not finite are not worth keeping for others.
    if (status.code() == StatusCode::kNonFinite) request.slot->truncate(0);
    end(request, FinishReason::kFailed, status);
    return;
  }
  if (request.is_decoding()) {
    sample(request);
    return;
  }
  const bool is_complete = request.n_prompt_done() == request.n_prompt();
  if (is_complete) request.prompt_end_ns = now_ns;
  push_event(request, EventKind::kPrefill);
  if (is_complete) sample(request);
}

void Scheduler::Impl::sample(Request &request) noexcept {
  const uint32_t row = request.first_row + request.n_rows - 1;
  // All tokens so far are in the slot now, and the chosen one comes behind them.
  const std::vector<int32_t> &recent = request.slot->tokens();
  Sampler::Choice choice;
  const Status status =
      sampler.choose({batch.logits(row), model.config().vocabulary_size}, request.options.sampler,
                     recent, recent.size(), request.options.wants_logprobs, &choice);
  if (!status.is_ok()) {
    end(request, FinishReason::kFailed, status);
  } else if (request.is_stop(choice.token)) {
    end(request, FinishReason::kStopToken);
  } else {
    take_token(request, choice);
  }
}

void Scheduler::Impl::take_token(Request &request, const Sampler::Choice &choice) noexcept {
  request.last_token = choice.token;
  ++request.n_generated;
  ++n_tokens;
  Event &event = push_event(request, EventKind::kToken);
  event.token = choice.token;
  event.logprob = choice.logprob;
  bool is_stopped = false;
  try {
    is_stopped = request.text.push(choice.token, &event.text);
  } catch (const std::exception &) {
    end(request, FinishReason::kFailed,
        make_status(StatusCode::kMemory, "no memory for the text of token %u",
                    request.n_generated));
    return;
  }
  if (is_stopped) {
    end(request, FinishReason::kStopString);
  } else if (request.n_generated == request.max_tokens) {
    end(request, FinishReason::kLength);
  }
}

Event &Scheduler::Impl::push_event(const Request &request, EventKind kind) noexcept {
  Event &event = events.push();
  event.kind = kind;
  event.request = request.id;
  event.user_data = request.options.user_data;
  event.has_text =
      request.text.has_text() && (kind == EventKind::kToken || kind == EventKind::kFinished);
  event.n_prompt = request.n_prompt();
  event.n_prompt_done = request.n_prompt_done();
  event.n_prompt_reused = request.n_reused;
  event.n_generated = request.n_generated;
  if (request.slot != nullptr) {
    const bool is_prompt_done = request.prompt_end_ns != 0;
    event.prefill_ns = (is_prompt_done ? request.prompt_end_ns : now_ns) - request.admitted_ns;
    event.decode_ns = is_prompt_done ? now_ns - request.prompt_end_ns : 0;
  }
  return event;
}

// The last event of a request, with the text held back for it. Returns the reason that it really
// has: text that finds no memory makes a failure of any end.
FinishReason Scheduler::Impl::push_finished(Request &request, FinishReason reason,
                                            const Status &status) noexcept {
  Event &event = push_event(request, EventKind::kFinished);
  event.finish = reason;
  event.status = status;
  try {
    request.text.flush(&event.text);
  } catch (const std::exception &) {
    event.finish = FinishReason::kFailed;
    event.status = make_status(StatusCode::kMemory, "no memory for the last text of the request");
  }
  return event.finish;
}

void Scheduler::Impl::end(Request &request, FinishReason reason, const Status &status) noexcept {
  const FinishReason real_reason = push_finished(request, reason, status);
  slots.release(request.slot);
  book.retire(request, real_reason);
}

Scheduler::Scheduler(const Model &model, KvPool &pool, const Tokenizer *tokenizer,
                     const SchedulerOptions &options) {
  try {
    impl_ = std::make_unique<Impl>(model, pool, tokenizer, options);
  } catch (const std::bad_alloc &) {
    throw_error(StatusCode::kMemory, "scheduler: no memory for %u slots", options.n_slots);
  }
}

Scheduler::~Scheduler() = default;

uint64_t Scheduler::submit(RequestOptions options, uint32_t *effective_max_tokens) {
  try {
    uint32_t max_tokens = 0;
    std::unique_ptr<Request> request = impl_->make_request(std::move(options), &max_tokens);
    const uint64_t id = impl_->book.add(std::move(request));
    if (effective_max_tokens != nullptr) *effective_max_tokens = max_tokens;
    return id;
  } catch (const std::bad_alloc &) {
    impl_->book.count_rejected();
    throw_error(StatusCode::kMemory, "request: no memory to queue it");
  } catch (const Error &) {
    impl_->book.count_rejected();
    throw;
  }
}

Status Scheduler::cancel(uint64_t request) noexcept {
  return impl_->book.record_wish(request, RequestBook::Wish::kCancel);
}

Status Scheduler::stop(uint64_t request) noexcept {
  return impl_->book.record_wish(request, RequestBook::Wish::kStop);
}

Status Scheduler::pause(uint64_t request) noexcept {
  return impl_->book.record_wish(request, RequestBook::Wish::kPause);
}

Status Scheduler::resume(uint64_t request) noexcept {
  return impl_->book.record_wish(request, RequestBook::Wish::kResume);
}

void Scheduler::wake() noexcept {
  impl_->book.wake();
}

Status Scheduler::step(bool waits, StepResult *result) noexcept {
  Impl &impl = *impl_;
  if (waits && impl.events.size() == 0) impl.book.wait_for_work();
  const uint64_t start_ns = read_clock_ns();
  impl.now_ns = start_ns;
  if (!impl.make_room_for_events()) {
    return make_status(StatusCode::kMemory,
                       "step: no memory for events, %zu wait to be read; read them and step again",
                       impl.events.size());
  }
  impl.end_withdrawn();
  impl.admit_queued();
  const RowTotals totals = impl.choose_rows();
  if (totals.n_decode_rows + totals.n_prefill_rows != 0) {
    impl.run_pass();
    impl.take_results();
    impl.book.count_step(totals.n_prefill_rows, totals.n_decode_rows, impl.n_tokens);
  }
  if (result == nullptr) return Status();
  const SchedulerStats stats = impl.book.stats();
  result->n_prefill_rows = totals.n_prefill_rows;
  result->n_decode_rows = totals.n_decode_rows;
  result->n_rows = totals.n_prefill_rows + totals.n_decode_rows;
  result->n_active = stats.n_active;
  result->n_queued = stats.n_queued;
  result->n_events = static_cast<uint32_t>(impl.events.size());
  result->elapsed_ns = read_clock_ns() - start_ns;
  return Status();
}

std::span<const Event> Scheduler::take_events(size_t capacity) noexcept {
  return impl_->events.take(capacity);
}

SchedulerStats Scheduler::stats() const noexcept {
  return impl_->book.stats();
}

}  // namespace colibri

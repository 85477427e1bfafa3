// SPDX-License-Identifier: Apache-2.0
//
// Lists have at most max_queued (65,536) and n_slots entries and are searched in full; what is not
// done under the mutex is anything that computes, copies KV entries or makes an event.

#include "lib/runtime/request_book.h"

#include <algorithm>
#include <utility>

namespace colibri {

RequestBook::RequestBook(uint32_t n_slots, uint32_t max_queued)
    : n_slots_(n_slots), max_queued_(max_queued) {
  active_.reserve(n_slots);
}

uint64_t RequestBook::add(std::unique_ptr<Request> request) {
  uint64_t id = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (queued_.size() >= max_queued_) {
      throw_error(StatusCode::kCapacity,
                  "request: %zu requests wait already, max_queued is %u; step, or submit later",
                  queued_.size(), max_queued_);
    }
    const int32_t priority = request->options.priority;
    const auto place = std::find_if(queued_.begin(), queued_.end(), [priority](const auto &other) {
      return other->options.priority < priority;
    });
    id = counts_.n_submitted + 1;
    request->id = id;
    queued_.insert(place, std::move(request));
    ++counts_.n_submitted;
    ++n_changes_;
  }
  changed_.notify_one();
  return id;
}

void RequestBook::count_rejected() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.n_rejected;
}

Request *RequestBook::find(uint64_t id) noexcept {
  for (const auto *list : {&queued_, &active_}) {
    for (const auto &request : *list) {
      if (request->id == id) return request.get();
    }
  }
  return nullptr;
}

Status RequestBook::record_wish(uint64_t id, Wish wish) noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Request *request = find(id);
    if (request == nullptr) {
      return make_status(StatusCode::kNotFound,
                         "request %llu is not queued or active: it has ended, or never was",
                         static_cast<unsigned long long>(id));
    }
    if (wish == Wish::kCancel) request->wants_cancel = true;
    if (wish == Wish::kStop) request->wants_stop = true;
    if (wish == Wish::kPause) request->wants_pause = true;
    if (wish == Wish::kResume) request->wants_pause = false;
    ++n_changes_;
  }
  changed_.notify_one();
  return Status();
}

void RequestBook::wake() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_woken_ = true;
  }
  changed_.notify_one();
}

SchedulerStats RequestBook::stats() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  SchedulerStats stats = counts_;
  stats.n_active = static_cast<uint32_t>(active_.size());
  stats.n_queued = static_cast<uint32_t>(queued_.size());
  return stats;
}

bool RequestBook::has_work() const noexcept {
  const auto is_withdrawn = [](const auto &request) {
    return request->wants_cancel || request->wants_stop;
  };
  const auto is_ready = [&](const auto &request) {
    return is_withdrawn(request) || !request->wants_pause;
  };
  if (std::any_of(active_.begin(), active_.end(), is_ready)) return true;
  return active_.size() < n_slots_ ? std::any_of(queued_.begin(), queued_.end(), is_ready)
                                   : std::any_of(queued_.begin(), queued_.end(), is_withdrawn);
}

void RequestBook::wait_for_work() noexcept {
  std::unique_lock<std::mutex> lock(mutex_);
  if (has_work()) return;
  const uint64_t n_changes = n_changes_;
  changed_.wait(lock, [&] { return is_woken_ || n_changes_ != n_changes; });
  is_woken_ = false;
}

size_t RequestBook::n_withdrawn() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<size_t>(std::count_if(queued_.begin(), queued_.end(), [](const auto &request) {
    return request->wants_cancel || request->wants_stop;
  }));
}

std::unique_ptr<Request> RequestBook::take_withdrawn(FinishReason *reason) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = std::find_if(queued_.begin(), queued_.end(), [](const auto &request) {
    return request->wants_cancel || request->wants_stop;
  });
  if (place == queued_.end()) return nullptr;
  std::unique_ptr<Request> request = std::move(*place);
  queued_.erase(place);
  *reason = request->wants_cancel ? FinishReason::kCancelled : FinishReason::kStopped;
  count_end(*reason);
  return request;
}

void RequestBook::read_wishes() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto &request : active_) {
    request->is_cancelled = request->wants_cancel;
    request->is_stopped = request->wants_stop;
    request->is_paused = request->wants_pause;
  }
}

size_t RequestBook::admit() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const size_t n_before = active_.size();
  for (auto place = queued_.begin(); place != queued_.end() && active_.size() < n_slots_;) {
    if ((*place)->wants_pause) {
      ++place;
      continue;
    }
    (*place)->serial = ++n_admitted_;
    active_.push_back(std::move(*place));
    place = queued_.erase(place);
  }
  return active_.size() - n_before;
}

size_t RequestBook::list_queued(std::span<TokenSpan> prompts) const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t n = 0;
  for (const auto &request : queued_) {
    if (n == prompts.size()) break;
    if (!request->wants_pause) prompts[n++] = request->options.prompt;
  }
  return n;
}

std::unique_ptr<Request> RequestBook::retire(const Request &request, FinishReason reason) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = std::find_if(active_.begin(), active_.end(),
                                  [&](const auto &other) { return other.get() == &request; });
  std::unique_ptr<Request> retired = std::move(*place);
  active_.erase(place);
  count_end(reason);
  return retired;
}

void RequestBook::count_end(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::kStopToken:
    case FinishReason::kStopString:
      ++counts_.n_finished;
      break;
    case FinishReason::kLength:
      ++counts_.n_length;
      break;
    case FinishReason::kStopped:
      ++counts_.n_stopped;
      break;
    case FinishReason::kCancelled:
      ++counts_.n_cancelled;
      break;
    case FinishReason::kFailed:
    case FinishReason::kNone:
      ++counts_.n_failed;
      break;
  }
}

void RequestBook::count_reused(uint32_t n_positions) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  counts_.n_reused_positions += n_positions;
}

void RequestBook::count_step(uint32_t n_prefill_rows, uint32_t n_decode_rows,
                             uint32_t n_tokens) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_.n_steps;
  counts_.n_prefill_rows += n_prefill_rows;
  counts_.n_decode_rows += n_decode_rows;
  counts_.n_tokens += n_tokens;
}

}  // namespace colibri

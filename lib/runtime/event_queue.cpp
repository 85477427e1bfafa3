// SPDX-License-Identifier: Apache-2.0
//
// A ring that grows, and beside it the events handed out last. Events move between the two by
// swapping, which carries the memory of their texts along in both directions.

#include "lib/runtime/event_queue.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

namespace colibri {
namespace {

constexpr size_t kLeastTaken = 16;

void append_events(std::vector<Event> *events, size_t n) {
  events->reserve(events->size() + n);
  for (size_t i = 0; i < n; ++i) {
    Event event;
    event.text.reserve(EventQueue::kUsualTextBytes);
    events->push_back(std::move(event));
  }
}

}  // namespace

EventQueue::EventQueue(size_t capacity) {
  append_events(&ring_, std::max<size_t>(capacity, 1));
  append_events(&taken_, kLeastTaken);
}

bool EventQueue::reserve(size_t n) noexcept {
  if (ring_.size() - size_ >= n) return true;
  try {
    const size_t old_size = ring_.size();
    const size_t wanted = std::max(size_ + n, old_size + old_size / 2);
    std::vector<Event> larger;
    append_events(&larger, wanted);
    for (size_t i = 0; i < size_; ++i) std::swap(larger[i], ring_[(first_ + i) % old_size]);
    ring_.swap(larger);
    first_ = 0;
    return true;
  } catch (const std::exception &) {
    return false;
  }
}

Event &EventQueue::push() noexcept {
  assert(size_ < ring_.size());
  // An empty ring starts over, so that a reader who keeps up always meets the same few objects.
  if (size_ == 0) first_ = 0;
  Event &event = ring_[(first_ + size_) % ring_.size()];
  ++size_;
  std::string text = std::move(event.text);
  text.clear();
  event = Event();
  event.text = std::move(text);
  return event;
}

std::span<const Event> EventQueue::take(size_t capacity) noexcept {
  size_t n = std::min(capacity, size_);
  if (n > taken_.size()) {
    try {
      append_events(&taken_, n - taken_.size());
    } catch (const std::exception &) {
      n = taken_.size();
    }
  }
  for (size_t i = 0; i < n; ++i) {
    std::swap(taken_[i], ring_[first_]);
    first_ = (first_ + 1) % ring_.size();
  }
  size_ -= n;
  return {taken_.data(), n};
}

}  // namespace colibri

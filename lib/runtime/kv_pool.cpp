// SPDX-License-Identifier: Apache-2.0
//
// The stride between slots is the layout's slot size, whatever a request needs: a slot that served
// a long sequence serves a short one, and a long one again, without its rows moving.

#include "lib/runtime/kv_pool.h"

#include <algorithm>
#include <cassert>
#include <exception>

namespace colibri {

void KvSlot::append(std::span<const int32_t> tokens) noexcept {
  assert(tokens.size() <= capacity() - length());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void KvSlot::prepare(uint32_t n_rows) noexcept {
  first_held_ = std::max(first_held_, layout_->first_kept(length() + n_rows));
}

// Shorter lengths need older positions only: if this one cannot be reached, none but 0 can.
uint32_t KvSlot::reusable_length(uint32_t length) const noexcept {
  return layout_->first_needed(length) >= first_held_ ? length : 0;
}

void KvSlot::truncate(uint32_t length) noexcept {
  assert(length <= tokens_.size() && length == reusable_length(length));
  tokens_.resize(length);
  if (length == 0) first_held_ = 0;
}

void KvSlot::copy_prefix_from(const KvSlot &other, uint32_t length) noexcept {
  assert(length <= other.length() && length <= capacity());
  if (&other == this) {
    truncate(length);
    return;
  }
  assert(length == other.reusable_length(length));
  layout_->copy_prefix(other.data_, data_, length);
  tokens_.assign(other.tokens_.begin(), other.tokens_.begin() + length);
  first_held_ = layout_->first_needed(length);
}

KvPool::KvPool(const KvLayout &layout, uint32_t n_slots) {
  assert(n_slots >= 1);
  const uint64_t slot_bytes = layout.slot_bytes();
  if (slot_bytes > UINT64_MAX / n_slots) {
    throw_error(StatusCode::kMemory, "KV pool: %u slots of %llu bytes exceed 64 bits", n_slots,
                static_cast<unsigned long long>(slot_bytes));
  }
  memory_ = Buffer(slot_bytes * n_slots, "KV slots");
  try {
    slots_ = std::vector<KvSlot>(n_slots);
    for (uint32_t i = 0; i < n_slots; ++i) {
      slots_[i].layout_ = &layout;
      slots_[i].data_ = memory_.data() + i * slot_bytes;
      slots_[i].tokens_.reserve(layout.capacity());
    }
  } catch (const std::exception &) {
    throw_error(StatusCode::kMemory, "KV pool: no memory for the token lists of %u slots of %u",
                n_slots, layout.capacity());
  }
}

KvSlot *KvPool::take() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [](const KvSlot &candidate) { return !candidate.is_taken_; });
  if (slot == slots_.end()) return nullptr;
  slot->is_taken_ = true;
  slot->truncate(0);
  ++n_taken_;
  return &*slot;
}

void KvPool::give_back(KvSlot *slot) noexcept {
  if (slot == nullptr) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  assert(slot->is_taken_ && slot->n_waiting_rows() == 0);
  slot->is_taken_ = false;
  --n_taken_;
}

uint32_t KvPool::n_taken() const noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  return n_taken_;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Slots are added in slabs, one anonymous mapping each, because a mapping for all experts of a
// large model would exceed what an overcommit limit lets a process reserve at once.

#include "lib/residency/expert_slots.h"

#include <algorithm>
#include <cassert>

#include "lib/base/checked_math.h"

namespace colibri {

ExpertSlots::ExpertSlots(uint64_t slot_bytes, uint32_t max_slots, bool are_filled)
    : slot_bytes_(slot_bytes),
      max_slots_(max_slots),
      uses_huge_pages_(are_filled && slot_bytes >= kLeastHugeBytes) {
  slots_.reserve(max_slots);
}

void ExpertSlots::reserve(uint32_t n_slots) {
  const uint32_t n_before = this->n_slots();
  const uint32_t n_after = std::min(n_slots, max_slots_);
  if (n_after <= n_before) return;
  slabs_.emplace_back(checked_multiply(n_after - n_before, slot_bytes_, "memory for experts"),
                      "memory for experts");
  if (uses_huge_pages_) {
    slabs_.back().ask_for_huge_pages();
  } else {
    slabs_.back().forbid_huge_pages();
  }
  uint8_t *address = slabs_.back().data();
  for (uint32_t slot = n_before; slot < n_after; ++slot) {
    slots_.push_back(Slot{address, static_cast<uint32_t>(slabs_.size() - 1), first_cold_, 0});
    first_cold_ = slot;
    address += slot_bytes_;
  }
}

uint32_t ExpertSlots::take(uint64_t bytes) noexcept {
  assert(bytes <= slot_bytes_);
  uint32_t &first = first_warm_ != kNoSlot ? first_warm_ : first_cold_;
  const uint32_t slot = first;
  if (slot == kNoSlot) return kNoSlot;
  first = slots_[slot].next_free;
  shrink_touched(slot, bytes);
  touched_bytes_ += bytes - slots_[slot].touched_bytes;
  slots_[slot].touched_bytes = bytes;
  return slot;
}

void ExpertSlots::give_back(uint32_t slot) noexcept {
  slots_[slot].next_free = first_warm_;
  first_warm_ = slot;
}

void ExpertSlots::release_free_pages() noexcept {
  while (first_warm_ != kNoSlot) {
    const uint32_t slot = first_warm_;
    first_warm_ = slots_[slot].next_free;
    shrink_touched(slot, 0);
    slots_[slot].next_free = first_cold_;
    first_cold_ = slot;
  }
}

void ExpertSlots::shrink_touched(uint32_t slot, uint64_t bytes) noexcept {
  Slot &subject = slots_[slot];
  if (subject.touched_bytes <= bytes) return;
  Buffer &slab = slabs_[subject.slab];
  const size_t start = static_cast<size_t>(subject.address - slab.data());
  slab.release_pages(start + bytes, subject.touched_bytes - bytes);
  touched_bytes_ -= subject.touched_bytes - bytes;
  subject.touched_bytes = bytes;
}

}  // namespace colibri

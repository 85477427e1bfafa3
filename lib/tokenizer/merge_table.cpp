// SPDX-License-Identifier: Apache-2.0
//
// Open addressing with linear probing, 16 bytes a slot, behind a one-bit filter of 8 bits a slot
// that stays in the second-level cache.

#include "lib/tokenizer/merge_table.h"

#include <bit>

namespace colibri {

void MergeTable::reserve(size_t n_merges) {
  const size_t n_slots = std::bit_ceil(n_merges + n_merges / 2 + 8);
  if (n_slots > slots_.size()) grow(n_slots);
}

size_t MergeTable::find_slot(uint64_t key, uint64_t pair_hash) const noexcept {
  const size_t mask = slots_.size() - 1;
  size_t i = pair_hash >> slot_shift_;
  while (slots_[i].key != key && slots_[i].key != kFree) i = (i + 1) & mask;
  return i;
}

void MergeTable::set(int32_t left, int32_t right, Merge merge) {
  if (slots_.empty() || (n_merges_ + 1) * 4 > slots_.size() * 3) {
    grow(slots_.empty() ? 16 : slots_.size() * 2);
  }
  const uint64_t key = make_key(left, right);
  const uint64_t pair_hash = hash(key);
  Slot &slot = slots_[find_slot(key, pair_hash)];
  if (slot.key == kFree) ++n_merges_;
  slot = {key, merge};
  const uint64_t bit = pair_hash >> filter_shift_;
  filter_[bit / 64] |= uint64_t{1} << bit % 64;
}

Merge MergeTable::find(int32_t left, int32_t right) const noexcept {
  if (slots_.empty()) return {kNoRank, -1};
  const uint64_t key = make_key(left, right);
  const uint64_t pair_hash = hash(key);
  const uint64_t bit = pair_hash >> filter_shift_;
  if ((filter_[bit / 64] >> bit % 64 & 1) == 0) return {kNoRank, -1};
  return slots_[find_slot(key, pair_hash)].merge;
}

void MergeTable::grow(size_t n_slots) {
  std::vector<Slot> old(n_slots);
  old.swap(slots_);
  const int slot_bits = std::countr_zero(n_slots);
  slot_shift_ = 64 - slot_bits;
  filter_shift_ = 64 - slot_bits - 3;
  filter_.assign(n_slots * 8 / 64, 0);
  n_merges_ = 0;
  for (const Slot &slot : old) {
    if (slot.key == kFree) continue;
    set(static_cast<int32_t>(slot.key >> 32), static_cast<int32_t>(slot.key & UINT32_MAX),
        slot.merge);
  }
}

}  // namespace colibri

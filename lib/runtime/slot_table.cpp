// SPDX-License-Identifier: Apache-2.0
//
// Where a prefix comes from and which slot pays for it are two questions. The first is answered by
// the longest common start over all slots; a copy of it has the same bits as the original. The
// second decides what is lost.

#include "lib/runtime/slot_table.h"

#include <algorithm>
#include <cassert>
#include <exception>

namespace colibri {
namespace {

// Positions of `tokens` that the slot need not compute again.
uint32_t count_reusable(const KvSlot &slot, TokenSpan tokens) noexcept {
  return slot.reusable_length(count_common_prefix(tokens, slot.tokens()));
}

}  // namespace

uint32_t count_common_prefix(TokenSpan a, TokenSpan b) noexcept {
  const size_t shorter = std::min(a.size(), b.size());
  const auto end = a.begin() + static_cast<ptrdiff_t>(shorter);
  return static_cast<uint32_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

SlotTable::SlotTable(KvPool &pool, uint32_t n_slots) : pool_(&pool) {
  try {
    entries_.reserve(n_slots);
  } catch (const std::exception &) {
    throw_error(StatusCode::kMemory, "scheduler: no memory for a table of %u slots", n_slots);
  }
  while (entries_.size() < n_slots) {
    KvSlot *slot = pool.take();
    if (slot == nullptr) {
      const size_t n_free = entries_.size();
      for (const Entry &entry : entries_) pool.give_back(entry.slot);
      throw_error(StatusCode::kCapacity,
                  "scheduler: %u slots asked for, %zu of the pool's %u are free", n_slots, n_free,
                  pool.n_slots());
    }
    entries_.push_back({slot, true, 0});
  }
}

SlotTable::~SlotTable() {
  for (const Entry &entry : entries_) pool_->give_back(entry.slot);
}

uint32_t SlotTable::count_loss(const KvSlot &slot, uint32_t n_kept,
                               std::span<const TokenSpan> rivals) noexcept {
  uint32_t loss = 0;
  for (const TokenSpan rival : rivals) {
    const uint32_t common = count_reusable(slot, rival);
    if (common > n_kept) loss = std::max(loss, common - n_kept);
  }
  return loss;
}

SlotTable::Entry *SlotTable::choose_entry(TokenSpan reusable,
                                          std::span<const TokenSpan> rivals) noexcept {
  Entry *best = nullptr;
  uint32_t best_loss = 0;
  uint32_t best_common = 0;
  for (Entry &entry : entries_) {
    if (!entry.is_free) continue;
    const uint32_t common = count_reusable(*entry.slot, reusable);
    const uint32_t loss = count_loss(*entry.slot, common, rivals);
    bool is_better = best == nullptr || loss < best_loss;
    if (!is_better && loss == best_loss) {
      is_better = common != best_common ? common > best_common : entry.last_used < best->last_used;
    }
    if (!is_better) continue;
    best = &entry;
    best_loss = loss;
    best_common = common;
  }
  return best;
}

SlotTable::Placement SlotTable::place(TokenSpan prompt,
                                      std::span<const TokenSpan> rivals) noexcept {
  const TokenSpan reusable = prompt.first(prompt.size() - 1);
  Entry *entry = choose_entry(reusable, rivals);
  assert(entry != nullptr);
  KvSlot *source = entry->slot;
  uint32_t n_reused = count_reusable(*source, reusable);
  for (const Entry &other : entries_) {
    const uint32_t common = count_reusable(*other.slot, reusable);
    if (common > n_reused) {
      n_reused = common;
      source = other.slot;
    }
  }
  entry->slot->copy_prefix_from(*source, n_reused);
  entry->is_free = false;
  return {entry->slot, n_reused};
}

void SlotTable::release(KvSlot *slot) noexcept {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [slot](const Entry &other) { return other.slot == slot; });
  assert(entry != entries_.end() && !entry->is_free);
  entry->is_free = true;
  entry->last_used = ++n_releases_;
}

}  // namespace colibri

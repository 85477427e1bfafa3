// SPDX-License-Identifier: Apache-2.0
//
// SlotTable: the KV slots of one scheduler, and which of them a new request gets. Slots keep their
// tokens when a request ends, so a later request that begins alike starts behind what is there.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/runtime/kv_pool.h"

namespace colibri {

using TokenSpan = std::span<const int32_t>;

// Length of the longest common start.
uint32_t count_common_prefix(TokenSpan a, TokenSpan b) noexcept;

class SlotTable {
 public:
  // Takes n_slots slots of the pool, which must outlive the table. Throws Error: kCapacity,
  // kMemory.
  SlotTable(KvPool &pool, uint32_t n_slots);
  ~SlotTable();
  SlotTable(const SlotTable &) = delete;
  SlotTable &operator=(const SlotTable &) = delete;

  struct Placement {
    KvSlot *slot = nullptr;
    uint32_t n_reused = 0;  // leading positions of the prompt that the slot holds now: its length
  };
  // Gives a free slot to a prompt; there must be one. Reuses the longest start of the prompt that
  // any slot holds, running ones included (copied then), but leaves at least the last token to
  // compute. The slot is the free one with the longest common start; ties: the one unused for
  // longest. A slot that is worth more to one of the `rivals`, prompts that wait for a slot
  // themselves, is left to them while another is free.
  Placement place(TokenSpan prompt, std::span<const TokenSpan> rivals) noexcept;
  // The slot is free again and keeps its tokens.
  void release(KvSlot *slot) noexcept;

  uint32_t n_slots() const noexcept { return static_cast<uint32_t>(entries_.size()); }

 private:
  struct Entry {
    KvSlot *slot = nullptr;
    bool is_free = true;
    uint64_t last_used = 0;
  };
  // The most that a rival would lose if a prompt kept only n_kept positions of the slot.
  static uint32_t count_loss(const KvSlot &slot, uint32_t n_kept,
                             std::span<const TokenSpan> rivals) noexcept;
  Entry *choose_entry(TokenSpan reusable, std::span<const TokenSpan> rivals) noexcept;

  KvPool *pool_;
  std::vector<Entry> entries_;
  uint64_t n_releases_ = 0;
};

}  // namespace colibri

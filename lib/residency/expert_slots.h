// SPDX-License-Identifier: Apache-2.0
//
// ExpertSlots: the memory that experts are read into. Every slot has the address space of the
// largest expert, but holds the pages of its present occupant alone: pages behind a smaller one,
// and pages of slots that stay free, go back to the system. So resident bytes are the sum of the
// occupants' bytes, whatever their mix. Not thread-safe.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/buffer.h"

namespace colibri {

class ExpertSlots {
 public:
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  // slot_bytes: whole pages. There will never be more than max_slots. If every occupant fills its
  // slot, huge pages are used for slots of kLeastHugeBytes and more: slots are taken from one end
  // to the other, so that what is resident is at most kHugeSlack more than touched_bytes(). In all
  // other cases they are forbidden, as behind small occupants they would hold up to 2 MiB in every
  // slot where the system uses them unasked.
  ExpertSlots(uint64_t slot_bytes, uint32_t max_slots, bool are_filled);
  static constexpr uint64_t kLeastHugeBytes = 256 << 10;
  static constexpr uint64_t kHugeSlack = Buffer::kHugePageBytes;

  // Makes sure that there are n_slots (at most max_slots); keeps what there is. Throws
  // Error(kMemory).
  void reserve(uint32_t n_slots);
  uint32_t n_slots() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // A free slot for `bytes` (whole pages, at most slot_bytes), preferably one whose pages are still
  // there; kNoSlot if none is free. Allocates nothing.
  uint32_t take(uint64_t bytes) noexcept;
  // The slot is free again. Its pages stay for the next take(), until release_free_pages().
  void give_back(uint32_t slot) noexcept;
  void release_free_pages() noexcept;

  uint8_t *address(uint32_t slot) noexcept { return slots_[slot].address; }
  // Bytes whose pages may be resident, free slots included.
  uint64_t touched_bytes() const noexcept { return touched_bytes_; }

 private:
  struct Slot {
    uint8_t *address = nullptr;
    uint32_t slab = 0;
    uint32_t next_free = kNoSlot;
    uint64_t touched_bytes = 0;  // from the start of the slot
  };
  void shrink_touched(uint32_t slot, uint64_t bytes) noexcept;

  uint64_t slot_bytes_;
  uint32_t max_slots_;
  bool uses_huge_pages_;
  std::vector<Buffer> slabs_;  // one for each time that slots were added
  std::vector<Slot> slots_;
  uint32_t first_warm_ = kNoSlot;  // free slots with pages
  uint32_t first_cold_ = kNoSlot;  // free slots without
  uint64_t touched_bytes_ = 0;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Batch: rows of several slots for one forward pass, and their results. Knows nothing of requests.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/model.h"
#include "lib/runtime/kv_pool.h"

namespace colibri {

enum class LogitsMode : uint8_t { kNone, kLast, kAll };

class Batch {
 public:
  // The model must outlive the batch. Throws Error(kMemory).
  Batch(const Model &model, uint32_t max_rows, uint32_t max_logits_rows);
  // Drops rows that wait; their slots must still exist.
  ~Batch();
  Batch(const Batch &) = delete;
  Batch &operator=(const Batch &) = delete;

  void clear() noexcept;
  // Adds the next tokens of a slot behind its length and behind its rows already in the batch. On
  // failure nothing is added: kArgument (no tokens, or one outside the vocabulary), kState (decoded
  // and not cleared), kBusy (rows of the slot wait in another batch), kCapacity, kContext.
  Status add(KvSlot &slot, std::span<const int32_t> tokens, LogitsMode mode,
             uint32_t *first_row) noexcept;
  // Runs the pass; slots grow by their leading rows that succeeded. kState without rows or when
  // already decoded; kIo if a row failed. Logits that are not finite mark their row kNonFinite
  // without failing the call.
  Status decode(ForwardObserver *observer = nullptr) noexcept;

  uint32_t n_rows() const noexcept { return static_cast<uint32_t>(rows_.size()); }
  uint32_t free_rows() const noexcept { return max_rows_ - n_rows(); }
  uint32_t free_logits_rows() const noexcept { return max_logits_rows_ - n_logits_rows_; }
  bool is_decoded() const noexcept { return is_decoded_; }
  // After decode. row < n_rows().
  const Status &row_status(uint32_t row) const noexcept { return row_status_[row]; }
  // Whether the row was added with a wish for logits. row < n_rows().
  bool wants_logits(uint32_t row) const noexcept { return rows_[row].logits_row >= 0; }
  // V values; nullptr if the row asked for none, failed, or was not decoded.
  const float *logits(uint32_t row) const noexcept;
  // True if rows of the slot wait here.
  bool holds(const KvSlot &slot) const noexcept { return slot.waiting_batch_.load() == this; }

 private:
  Status check_add(const KvSlot &slot, std::span<const int32_t> tokens,
                   uint32_t n_logits) const noexcept;
  void release_slots() noexcept;
  void check_logits(uint32_t row) noexcept;

  const Model *model_;
  WorkspacePtr workspace_;
  uint32_t max_rows_;
  uint32_t max_logits_rows_;
  uint32_t n_logits_rows_ = 0;
  bool is_decoded_ = false;
  // Reserved to max_rows; one entry per row each.
  std::vector<ForwardRow> rows_;
  std::vector<KvSlot *> row_slots_;
  std::vector<Status> row_status_;
};

}  // namespace colibri

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

  void clear() noexcept;
  // Adds the next tokens of a slot behind its length and behind its rows already in the batch. On failure
  // (kCapacity, kContext, kState, kArgument for a token outside the vocabulary) nothing is added.
  Status add(KvSlot &slot, std::span<const int32_t> tokens, LogitsMode mode, uint32_t *first_row) noexcept;
  // Runs the pass; slots grow by their rows that succeeded. kState without rows or when already decoded; kIo if a row
  // failed. Logits that are not finite mark their row kNonFinite without failing the call.
  Status decode(ForwardObserver *observer = nullptr) noexcept;

  uint32_t n_rows() const noexcept { return static_cast<uint32_t>(rows_.size()); }
  uint32_t free_rows() const noexcept;
  uint32_t free_logits_rows() const noexcept;
  bool is_decoded() const noexcept { return is_decoded_; }
  const Status &row_status(uint32_t row) const noexcept;
  // nullptr if the row asked for none.
  const float *logits(uint32_t row) const noexcept;
  // True if rows of the slot wait here.
  bool holds(const KvSlot &slot) const noexcept;

 private:
  const Model *model_;
  WorkspacePtr workspace_;
  uint32_t max_rows_;
  uint32_t max_logits_rows_;
  uint32_t n_logits_rows_ = 0;
  bool is_decoded_ = false;
  std::vector<ForwardRow> rows_;       // all vectors reserved to max_rows
  std::vector<KvSlot *> row_slots_;
  std::vector<Status> row_status_;
};

}  // namespace colibri

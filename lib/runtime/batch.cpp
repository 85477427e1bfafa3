// SPDX-License-Identifier: Apache-2.0
//
// Rows keep the order in which they were added. A slot belongs to at most one batch while rows of
// it wait: the first add takes it with one atomic exchange, decode and clear let it go.

#include "lib/runtime/batch.h"

#include <cassert>
#include <exception>

#include "lib/base/float_scan.h"

namespace colibri {

Batch::Batch(const Model &model, uint32_t max_rows, uint32_t max_logits_rows)
    : model_(&model),
      workspace_(model.make_workspace(max_rows, max_logits_rows)),
      max_rows_(max_rows),
      max_logits_rows_(max_logits_rows) {
  assert(max_rows >= 1 && max_logits_rows >= 1 && max_logits_rows <= max_rows);
  try {
    rows_.reserve(max_rows);
    row_slots_.reserve(max_rows);
    row_status_.reserve(max_rows);
  } catch (const std::exception &) {
    throw_error(StatusCode::kMemory, "batch: no memory for %u rows", max_rows);
  }
}

Batch::~Batch() {
  clear();
}

void Batch::clear() noexcept {
  if (!is_decoded_) release_slots();
  rows_.clear();
  row_slots_.clear();
  row_status_.clear();
  n_logits_rows_ = 0;
  is_decoded_ = false;
}

void Batch::release_slots() noexcept {
  // A slot is let go at its first row. From then on another batch may claim it, also from another
  // thread, so later rows of it must not touch it.
  for (KvSlot *slot : row_slots_) {
    if (slot->waiting_batch_ != this) continue;
    slot->n_waiting_rows_ = 0;
    slot->waiting_batch_ = nullptr;
  }
}

Status Batch::check_add(const KvSlot &slot, std::span<const int32_t> tokens,
                        uint32_t n_logits) const noexcept {
  if (is_decoded_) {
    return make_status(StatusCode::kState, "batch: decoded already; clear it before adding rows");
  }
  if (tokens.empty()) return make_status(StatusCode::kArgument, "batch: n_tokens is 0");
  if (tokens.size() > free_rows()) {
    return make_status(StatusCode::kCapacity, "batch: %zu rows do not fit, %u of %u are free",
                       tokens.size(), free_rows(), max_rows_);
  }
  if (n_logits > free_logits_rows()) {
    return make_status(StatusCode::kCapacity,
                       "batch: %u rows with logits do not fit, %u of %u are free", n_logits,
                       free_logits_rows(), max_logits_rows_);
  }
  const uint32_t vocabulary_size = model_->config().vocabulary_size;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= vocabulary_size) {
      return make_status(StatusCode::kArgument, "batch: token %zu is %d; must be 0..%u", i,
                         tokens[i], vocabulary_size - 1);
    }
  }
  const uint32_t n_waiting = holds(slot) ? slot.n_waiting_rows() : 0;
  if (tokens.size() > slot.capacity() - slot.length() - n_waiting) {
    return make_status(StatusCode::kContext,
                       "batch: the slot has %u positions and %u rows waiting; %zu more exceed its "
                       "capacity of %u",
                       slot.length(), n_waiting, tokens.size(), slot.capacity());
  }
  return Status();
}

Status Batch::add(KvSlot &slot, std::span<const int32_t> tokens, LogitsMode mode,
                  uint32_t *first_row) noexcept {
  const uint32_t n_logits = mode == LogitsMode::kNone   ? 0
                            : mode == LogitsMode::kLast ? 1
                                                        : static_cast<uint32_t>(tokens.size());
  // A number of tokens beyond 32 bits has too many rows whatever n_logits became.
  const Status status = check_add(slot, tokens, n_logits);
  if (!status.is_ok()) return status;
  const void *owner = nullptr;
  if (!slot.waiting_batch_.compare_exchange_strong(owner, this) && owner != this) {
    return make_status(StatusCode::kBusy, "batch: rows of this slot wait in another batch");
  }
  if (first_row != nullptr) *first_row = n_rows();
  uint32_t position = slot.length() + slot.n_waiting_rows();
  for (size_t i = 0; i < tokens.size(); ++i) {
    ForwardRow row;
    row.token = tokens[i];
    row.position = position++;
    row.slot = slot.data();
    if (mode == LogitsMode::kAll || (mode == LogitsMode::kLast && i + 1 == tokens.size())) {
      row.logits_row = static_cast<int32_t>(n_logits_rows_++);
    }
    rows_.push_back(row);
    row_slots_.push_back(&slot);
    row_status_.emplace_back();
  }
  slot.n_waiting_rows_ += static_cast<uint32_t>(tokens.size());
  return Status();
}

Status Batch::decode(ForwardObserver *observer) noexcept {
  if (is_decoded_) {
    return make_status(StatusCode::kState, "batch: decoded already; clear it and add rows");
  }
  if (rows_.empty()) return make_status(StatusCode::kState, "batch: there are no rows to decode");
  for (KvSlot *slot : row_slots_) slot->prepare(slot->n_waiting_rows());
  model_->forward(rows_, *workspace_, row_status_, observer);
  is_decoded_ = true;
  release_slots();
  uint32_t n_failed = 0;
  uint32_t first_failed = 0;
  for (uint32_t row = 0; row < n_rows(); ++row) {
    if (!row_status_[row].is_ok()) {
      if (n_failed++ == 0) first_failed = row;
      continue;
    }
    KvSlot &slot = *row_slots_[row];
    // Behind a failed row the positions do not meet any more, and the slot stays where it is.
    if (rows_[row].position == slot.length()) slot.append({&rows_[row].token, 1});
    if (rows_[row].logits_row >= 0) check_logits(row);
  }
  if (n_failed == 0) return Status();
  return make_status(StatusCode::kIo, "%u of %u rows failed; row %u: %s", n_failed, n_rows(),
                     first_failed, row_status_[first_failed].message());
}

void Batch::check_logits(uint32_t row) noexcept {
  const float *values = model_->logits(*workspace_, static_cast<uint32_t>(rows_[row].logits_row));
  const uint32_t n_logits = model_->config().vocabulary_size;
  const size_t id = find_non_finite({values, n_logits});
  if (id == n_logits) return;
  row_status_[row] = make_status(StatusCode::kNonFinite,
                                 "position %u: the logit of token %zu is %g; weights or saved "
                                 "state may be damaged",
                                 rows_[row].position, id, static_cast<double>(values[id]));
}

const float *Batch::logits(uint32_t row) const noexcept {
  assert(row < n_rows());
  if (!is_decoded_ || rows_[row].logits_row < 0 || !row_status_[row].is_ok()) return nullptr;
  return model_->logits(*workspace_, static_cast<uint32_t>(rows_[row].logits_row));
}

}  // namespace colibri

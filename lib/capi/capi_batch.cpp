// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/batch.h: rows of any slots in one pass. A slot whose rows wait in a batch cannot
// change otherwise until they are decoded or dropped; during the pass its gate is held as well.

#include "colibri/batch.h"

#include <span>

#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/out_buffers.h"

namespace colibri {
namespace {

LogitsMode read_logits_mode(int32_t mode) {
  switch (mode) {
    case COLIBRI_LOGITS_NONE:
      return LogitsMode::kNone;
    case COLIBRI_LOGITS_LAST:
      return LogitsMode::kLast;
    case COLIBRI_LOGITS_ALL:
      return LogitsMode::kAll;
    default:
      throw_error(StatusCode::kArgument, "logits_mode is %d; must be 0 (none), 1 (last) or 2 (all)",
                  mode);
  }
}

// The gates of all slots of a batch, held during a pass. Throws Error(kBusy) and holds none if one
// is in use.
class HeldSlots {
 public:
  explicit HeldSlots(std::span<colibri_kv_slot *const> slots) : slots_(slots) {
    for (; n_held_ < slots_.size(); ++n_held_) {
      if (slots_[n_held_]->gate().enter(UseMode::kWrite)) continue;
      leave();
      throw_busy("a slot of the batch");
    }
  }
  ~HeldSlots() { leave(); }
  HeldSlots(const HeldSlots &) = delete;
  HeldSlots &operator=(const HeldSlots &) = delete;

 private:
  void leave() noexcept {
    while (n_held_ > 0) slots_[--n_held_]->gate().leave(UseMode::kWrite);
  }

  std::span<colibri_kv_slot *const> slots_;
  size_t n_held_ = 0;
};

Status decode_batch(colibri_batch &batch) {
  const HeldSlots held(batch.slots);
  const Status status = batch.batch.decode();
  if (status.code() != StatusCode::kState) batch.model.count_pass(batch.batch.n_rows());
  for (colibri_kv_slot *slot : batch.slots) slot->publish_length();
  return status;
}

// A row of a decoded batch. Throws Error: kState, kArgument.
void require_row(const colibri_batch &batch, uint32_t row) {
  if (!batch.batch.is_decoded()) {
    throw_error(StatusCode::kState, "the batch has not been decoded");
  }
  if (row >= batch.batch.n_rows()) {
    throw_error(StatusCode::kArgument, "row is %u; the batch has %u rows", row,
                batch.batch.n_rows());
  }
}

}  // namespace
}  // namespace colibri

colibri_status colibri_batch_create(colibri_model *model, colibri_batch **batch,
                                    colibri_error *error) {
  if (batch != nullptr) *batch = nullptr;
  return colibri::guard(error, [&] {
    const colibri::Visit<colibri_model> use(model, "model");
    colibri::require_pointer(batch, "batch");
    *batch = std::make_unique<colibri_batch>(*use).release();
  });
}

colibri_status colibri_batch_destroy(colibri_batch *batch, colibri_error *error) {
  return colibri::guard(error, [&] {
    if (batch == nullptr) return;
    colibri::Close<colibri_batch> use(batch, "batch");
    use.take().reset();
  });
}

colibri_status colibri_batch_clear(colibri_batch *batch, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_batch> use(batch, "batch");
    use->batch.clear();
    use->slots.clear();
    use->n_rows = 0;
  });
}

colibri_status colibri_batch_add(colibri_batch *batch, colibri_kv_slot *slot, const int32_t *tokens,
                                 size_t n_tokens, int32_t logits_mode, uint32_t *first_row,
                                 colibri_error *error) {
  return colibri::guard(error, [&]() -> colibri::Status {
    const colibri::Write<colibri_batch> use(batch, "batch");
    const colibri::Write<colibri_kv_slot> slot_use(slot, "slot");
    colibri::require_pointer(tokens, "tokens");
    if (n_tokens == 0) {
      colibri::throw_error(colibri::StatusCode::kArgument, "n_tokens is 0; must be at least 1");
    }
    const colibri::LogitsMode mode = colibri::read_logits_mode(logits_mode);
    if (&use->model != &slot_use->model) {
      colibri::throw_error(colibri::StatusCode::kArgument,
                           "slot belongs to another model than batch");
    }
    const bool is_new = !use->batch.holds(*slot_use->slot);
    uint32_t row = 0;
    const colibri::Status status =
        use->batch.add(*slot_use->slot, std::span<const int32_t>(tokens, n_tokens), mode, &row);
    if (!status.is_ok()) return status;
    if (is_new) use->slots.push_back(slot);  // within the reserved room: each slot has a row here
    use->n_rows = use->batch.n_rows();
    if (first_row != nullptr) *first_row = row;
    return status;
  });
}

colibri_status colibri_batch_decode(colibri_batch *batch, colibri_error *error) {
  return colibri::guard_computing(error, [&]() -> colibri::Status {
    const colibri::Write<colibri_batch> use(batch, "batch");
    const colibri::Status status = colibri::decode_batch(*use);
    use->slots.clear();  // decoded, or there were none
    return status;
  });
}

uint32_t colibri_batch_row_count(const colibri_batch *batch) {
  if (!colibri::Handle::has_type(batch, colibri_batch::kType)) return 0;
  return batch->n_rows;
}

colibri_status colibri_batch_row_status(const colibri_batch *batch, uint32_t row,
                                        colibri_error *error) {
  return colibri::guard(error, [&]() -> colibri::Status {
    const colibri::Read<const colibri_batch> use(batch, "batch");
    colibri::require_row(*use, row);
    return use->batch.row_status(row);
  });
}

colibri_status colibri_batch_logits(const colibri_batch *batch, uint32_t row, const float **logits,
                                    size_t *n_logits, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Read<const colibri_batch> use(batch, "batch");
    colibri::require_pointer(logits, "logits");
    colibri::require_row(*use, row);
    if (!use->batch.wants_logits(row)) {
      colibri::throw_error(colibri::StatusCode::kArgument, "row %u asked for no logits", row);
    }
    const float *found = use->batch.logits(row);
    if (found == nullptr) {
      colibri::throw_error(colibri::StatusCode::kState, "row %u failed: %s", row,
                           use->batch.row_status(row).message());
    }
    *logits = found;
    if (n_logits != nullptr) *n_logits = use->model.open.config().vocabulary_size;
  });
}

// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/kv_slot.h: the state of one sequence.

#include "colibri/kv_slot.h"

#include <span>

#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/out_buffers.h"

namespace {

void require_within(const colibri::KvSlot &slot, uint32_t length) {
  if (length <= slot.length()) return;
  colibri::throw_error(colibri::StatusCode::kArgument, "length is %u; the slot has %u positions",
                       length, slot.length());
}

void require_reachable(const colibri::KvSlot &slot, uint32_t length) {
  require_within(slot, length);
  const uint32_t reusable = slot.reusable_length(length);
  if (reusable == length) return;
  colibri::throw_error(colibri::StatusCode::kArgument,
                       "length is %u; layers with an attention window no longer have what comes "
                       "before it, %u can be reached",
                       length, reusable);
}

}  // namespace

colibri_status colibri_kv_slot_create(colibri_model *model, colibri_kv_slot **slot,
                                      colibri_error *error) {
  if (slot != nullptr) *slot = nullptr;
  return colibri::guard(error, [&] {
    const colibri::Visit<colibri_model> use(model, "model");
    colibri::require_pointer(slot, "slot");
    *slot = std::make_unique<colibri_kv_slot>(*use).release();
  });
}

colibri_status colibri_kv_slot_destroy(colibri_kv_slot *slot, colibri_error *error) {
  return colibri::guard(error, [&] {
    if (slot == nullptr) return;
    colibri::Close<colibri_kv_slot> use(slot, "slot");
    use->require_no_waiting_rows();
    use.take().reset();
  });
}

uint32_t colibri_kv_slot_length(const colibri_kv_slot *slot) {
  if (!colibri::Handle::has_type(slot, colibri_kv_slot::kType)) return 0;
  return slot->length;
}

uint32_t colibri_kv_slot_capacity(const colibri_kv_slot *slot) {
  if (!colibri::Handle::has_type(slot, colibri_kv_slot::kType)) return 0;
  return slot->slot->capacity();
}

colibri_status colibri_kv_slot_reusable(const colibri_kv_slot *slot, uint32_t length,
                                        uint32_t *reusable, colibri_error *error) {
  if (reusable != nullptr) *reusable = 0;
  return colibri::guard(error, [&] {
    const colibri::Read<const colibri_kv_slot> use(slot, "slot");
    colibri::require_pointer(reusable, "reusable");
    require_within(*use->slot, length);
    *reusable = use->slot->reusable_length(length);
  });
}

colibri_status colibri_kv_slot_truncate(colibri_kv_slot *slot, uint32_t length,
                                        colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_kv_slot> use(slot, "slot");
    require_reachable(*use->slot, length);
    use->require_no_waiting_rows();
    use->slot->truncate(length);
    use->publish_length();
  });
}

colibri_status colibri_kv_slot_fork(colibri_kv_slot *slot, uint32_t length, colibri_kv_slot **fork,
                                    colibri_error *error) {
  if (fork != nullptr) *fork = nullptr;
  return colibri::guard(error, [&] {
    const colibri::Write<colibri_kv_slot> use(slot, "slot");
    colibri::require_pointer(fork, "fork");
    require_reachable(*use->slot, length);
    auto copy = std::make_unique<colibri_kv_slot>(use->model);
    copy->slot->copy_prefix_from(*use->slot, length);
    copy->publish_length();
    *fork = copy.release();
  });
}

colibri_status colibri_kv_slot_save(const colibri_kv_slot *slot, uint8_t *blob, size_t capacity,
                                    size_t *n_bytes, colibri_error *error) {
  return colibri::guard(error, [&]() -> colibri::Status {
    const colibri::Read<const colibri_kv_slot> use(slot, "slot");
    const colibri::OutBuffer out(blob, capacity, n_bytes, "blob");
    const colibri::Status status = out.claim(use->slot->blob_bytes());
    if (status.is_ok() && !out.is_size_query()) {
      use->slot->save(use->model.open.fingerprint(), blob);
    }
    return status;
  });
}

colibri_status colibri_kv_slot_restore(colibri_kv_slot *slot, const uint8_t *blob, size_t n_bytes,
                                       colibri_error *error) {
  return colibri::guard(error, [&]() -> colibri::Status {
    const colibri::Write<colibri_kv_slot> use(slot, "slot");
    colibri::require_pointer(blob, "blob");
    use->require_no_waiting_rows();
    const colibri::Status status =
        use->slot->restore(use->model.open.fingerprint(), std::span<const uint8_t>(blob, n_bytes));
    use->publish_length();
    return status;
  });
}

colibri_status colibri_kv_slot_tokens(const colibri_kv_slot *slot, int32_t *ids, size_t capacity,
                                      size_t *n_ids, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Read<const colibri_kv_slot> use(slot, "slot");
    const colibri::OutBuffer out(ids, capacity, n_ids, "ids");
    return out.put(std::span<const int32_t>(use->slot->tokens()));
  });
}

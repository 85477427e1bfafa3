// SPDX-License-Identifier: Apache-2.0
//
// Construction of the handle structs, in the order that their children rely on.

#include "lib/capi/objects.h"

namespace colibri {

EngineLease::EngineLease(colibri_model &model) : model_(model) {
  const uint32_t limit = model.open.options().n_engines;
  uint32_t count = model.n_engines.load();
  do {
    if (count >= limit) {
      throw_error(StatusCode::kCapacity,
                  "all %u engines (batches and schedulers) exist already; open the model with a "
                  "larger n_engines",
                  limit);
    }
  } while (!model.n_engines.compare_exchange_weak(count, count + 1));
}

SlotLease::SlotLease(colibri_model &model) : model_(model), slot_(model.open.pool().take()) {
  if (slot_ == nullptr) {
    throw_error(StatusCode::kCapacity,
                "all %u KV slots are in use; destroy one or open the model with a larger n_slots",
                model.open.options().n_slots);
  }
}

namespace {

std::unique_ptr<colibri_tokenizer> wrap_tokenizer(const OpenModel &open) {
  if (open.tokenizer() == nullptr) return nullptr;
  return std::make_unique<colibri_tokenizer>(open.tokenizer());
}

}  // namespace
}  // namespace colibri

colibri_model::colibri_model(const std::string &path, const colibri::OpenOptions &options)
    : Handle(kType), open(path, options), tokenizer(colibri::wrap_tokenizer(open)) {}

void colibri_kv_slot::require_no_waiting_rows() const {
  if (!slot->is_in_batch()) return;
  colibri::throw_error(
      colibri::StatusCode::kBusy,
      "rows of the slot wait in a batch; decode, clear or destroy the batch first");
}

colibri_batch::colibri_batch(colibri_model &of)
    : Handle(kType),
      model(of),
      child(of.n_batches),
      engine(of),
      batch(of.open.model(), of.open.options().max_rows, of.open.options().max_logits_rows) {
  slots.reserve(of.open.options().max_rows);
}

colibri_scheduler::colibri_scheduler(colibri_model &of, const colibri::SchedulerOptions &options)
    : Handle(kType),
      model(of),
      child(of.n_schedulers),
      engine(of),
      scheduler(of.open.model(), of.open.pool(), of.open.tokenizer(), options) {}

// SPDX-License-Identifier: Apache-2.0
//
// Slot and batch are made once and emptied between sequences.

#include "examples/colibri/logits_pass.h"

#include <algorithm>

#include "examples/colibri/terminal.h"

namespace colibri::command {

LogitsPass::LogitsPass(colibri_model *model, uint32_t chunk) : chunk_(chunk) {
  colibri_kv_slot *slot = nullptr;
  call(colibri_kv_slot_create, model, &slot);
  slot_.reset(slot);
  colibri_batch *batch = nullptr;
  call(colibri_batch_create, model, &batch);
  batch_.reset(batch);
}

bool LogitsPass::run(std::span<const int32_t> ids, const OnRow &on_row) {
  call(colibri_kv_slot_truncate, slot_.get(), 0u);
  for (size_t first = 0; first < ids.size(); first += chunk_) {
    if (is_interrupted()) return false;
    const auto part = ids.subspan(first, std::min<size_t>(chunk_, ids.size() - first));
    call(colibri_batch_clear, batch_.get());
    call(colibri_batch_add, batch_.get(), slot_.get(), part.data(), part.size(), COLIBRI_LOGITS_ALL,
         nullptr);
    call(colibri_batch_decode, batch_.get());
    for (size_t row = 0; row < part.size(); ++row) {
      const float *logits = nullptr;
      size_t n_logits = 0;
      call(colibri_batch_row_status, batch_.get(), static_cast<uint32_t>(row));
      call(colibri_batch_logits, batch_.get(), static_cast<uint32_t>(row), &logits, &n_logits);
      on_row(first + row, std::span(logits, n_logits));
    }
  }
  return true;
}

}  // namespace colibri::command

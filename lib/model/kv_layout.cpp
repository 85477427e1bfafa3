// SPDX-License-Identifier: Apache-2.0
//
// Offsets of a KV slot and the copies between slots and blobs. A blob holds for each layer its rows
// [0, length) and, for each layer with an indexer, the keys of positions [0, length) row by row: it
// does not depend on the capacity of the slot it came from.

#include "lib/model/kv_layout.h"

#include <cstring>

#include "lib/base/weight_layout.h"

namespace colibri {
namespace {

constexpr uint32_t kPanelPositions = kPanelColumns;

}  // namespace

KvLayout::KvLayout(const ModelConfig &config, uint32_t capacity)
    : capacity_(capacity),
      row_width_(config.kv_latent + config.rotary.width),
      index_width_(config.index_top_k > 0 ? config.index_width : 0),
      n_layers_(config.n_layers),
      rows_floats_(uint64_t{capacity} * row_width_),
      panels_floats_((uint64_t{capacity} + kPanelPositions - 1) / kPanelPositions *
                     kPanelPositions * index_width_),
      panel_index_(config.n_layers, -1) {
  int32_t n_panels = 0;
  for (uint32_t layer = 0; layer < n_layers_; ++layer) {
    if (index_width_ > 0 && config.indexer_kinds[layer] == IndexerKind::kFull) {
      panel_index_[layer] = n_panels++;
    }
  }
  slot_floats_ = n_layers_ * rows_floats_ + static_cast<uint64_t>(n_panels) * panels_floats_;
}

uint64_t KvLayout::bytes_per_position() const noexcept {
  uint64_t n_panels = 0;
  for (const int32_t index : panel_index_) n_panels += index >= 0 ? 1 : 0;
  return (uint64_t{n_layers_} * row_width_ + n_panels * index_width_) * sizeof(float);
}

float *KvLayout::index_panels(float *slot, uint32_t layer) const noexcept {
  const int32_t index = panel_index_[layer];
  if (index < 0) return nullptr;
  return slot + n_layers_ * rows_floats_ + static_cast<uint64_t>(index) * panels_floats_;
}

void KvLayout::copy_prefix(const float *source, float *destination,
                           uint32_t length) const noexcept {
  float *from = const_cast<float *>(source);  // read only; the accessors have one form
  const size_t panels = (size_t{length} + kPanelPositions - 1) / kPanelPositions;
  for (uint32_t layer = 0; layer < n_layers_; ++layer) {
    std::memcpy(rows(destination, layer), rows(from, layer),
                size_t{length} * row_width_ * sizeof(float));
    if (panel_index_[layer] < 0) continue;
    // The last panel may hold lanes beyond the prefix; they are overwritten before they are read.
    std::memcpy(index_panels(destination, layer), index_panels(from, layer),
                panels * kPanelPositions * index_width_ * sizeof(float));
  }
}

uint64_t KvLayout::blob_bytes(uint32_t length) const noexcept {
  return bytes_per_position() * length;
}

void KvLayout::save_prefix(const float *slot, uint32_t length, uint8_t *blob) const noexcept {
  if (length == 0) return;
  float *from = const_cast<float *>(slot);
  for (uint32_t layer = 0; layer < n_layers_; ++layer) {
    const size_t rows_bytes = size_t{length} * row_width_ * sizeof(float);
    std::memcpy(blob, rows(from, layer), rows_bytes);
    blob += rows_bytes;
    const float *panels = index_panels(from, layer);
    if (panels == nullptr) continue;
    for (uint32_t position = 0; position < length; ++position) {
      const float *panel =
          panels + size_t{position / kPanelPositions} * index_width_ * kPanelPositions;
      for (uint32_t i = 0; i < index_width_; ++i) {
        std::memcpy(blob, panel + size_t{i} * kPanelPositions + position % kPanelPositions,
                    sizeof(float));
        blob += sizeof(float);
      }
    }
  }
}

void KvLayout::restore_prefix(float *slot, uint32_t length, const uint8_t *blob) const noexcept {
  if (length == 0) return;
  for (uint32_t layer = 0; layer < n_layers_; ++layer) {
    const size_t rows_bytes = size_t{length} * row_width_ * sizeof(float);
    std::memcpy(rows(slot, layer), blob, rows_bytes);
    blob += rows_bytes;
    float *panels = index_panels(slot, layer);
    if (panels == nullptr) continue;
    for (uint32_t position = 0; position < length; ++position) {
      float *panel = panels + size_t{position / kPanelPositions} * index_width_ * kPanelPositions;
      for (uint32_t i = 0; i < index_width_; ++i) {
        std::memcpy(panel + size_t{i} * kPanelPositions + position % kPanelPositions, blob,
                    sizeof(float));
        blob += sizeof(float);
      }
    }
  }
}

}  // namespace colibri

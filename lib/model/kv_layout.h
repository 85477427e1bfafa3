// SPDX-License-Identifier: Apache-2.0
//
// What a KV slot holds and where: one contiguous float32 region per slot. For each layer a block of
// rows [capacity][latent + rope] (normalised latent, rotated rope key), then for each layer with
// its own indexer a block of key panels [ceil(capacity/16)][index_width][16]. The stride belongs to
// the slot's capacity, never to a request.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/snapshot/model_config.h"

namespace colibri {

class KvLayout {
 public:
  KvLayout() = default;
  // capacity: positions of a slot, >= 1.
  KvLayout(const ModelConfig &config, uint32_t capacity);

  uint32_t capacity() const noexcept { return capacity_; }
  uint32_t row_width() const noexcept { return row_width_; }  // latent + rope
  uint32_t index_width() const noexcept { return index_width_; }
  uint32_t n_layers() const noexcept { return n_layers_; }
  uint64_t slot_bytes() const noexcept { return slot_floats_ * sizeof(float); }
  uint64_t bytes_per_position() const noexcept;

  float *rows(float *slot, uint32_t layer) const noexcept { return slot + layer * rows_floats_; }
  // nullptr for a layer without its own indexer.
  float *index_panels(float *slot, uint32_t layer) const noexcept;

  // Copies positions [0, length) of all layers between two slots of this layout.
  void copy_prefix(const float *source, float *destination, uint32_t length) const noexcept;
  // Bytes that positions [0, length) take in a saved blob, and the copies to and from it.
  uint64_t blob_bytes(uint32_t length) const noexcept;
  void save_prefix(const float *slot, uint32_t length, uint8_t *blob) const noexcept;
  void restore_prefix(float *slot, uint32_t length, const uint8_t *blob) const noexcept;

 private:
  uint32_t capacity_ = 0;
  uint32_t row_width_ = 0;
  uint32_t index_width_ = 0;
  uint32_t n_layers_ = 0;
  uint64_t rows_floats_ = 0;
  uint64_t panels_floats_ = 0;
  uint64_t slot_floats_ = 0;
  std::vector<int32_t> panel_index_;  // per layer: ordinal of its panels, -1 if none
};

}  // namespace colibri

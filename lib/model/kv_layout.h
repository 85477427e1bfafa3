// SPDX-License-Identifier: Apache-2.0
//
// What a KV slot holds and where: one contiguous region per slot, layer after layer. A layer has
// places for positions, by head: [heads][places][width] keys, then the same of values. Latent
// attention has one head of width latent + rope and no values of its own (they are the front of the
// keys); a layer with its own indexer also has float32 key panels
// [ceil(capacity/16)][index_width][16].
//
// A layer with a window has fewer places than the slot has positions: position p stands in place
// p % places, and older positions are overwritten. So a slot cannot go on from every shorter
// length: first_needed() says what it takes, KvSlot knows what is still there.
//
// The stride belongs to the slot's capacity, never to a request.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/layer_math.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

constexpr uint32_t kIndexPanel = 16;  // positions whose index keys lie side by side

struct KvShape {
  uint32_t capacity = 0;  // positions of a slot, >= 1
  uint32_t max_rows = 1;  // rows of a pass: all of them are written before the first one attends
  KvType type = KvType::kF32;
};

// Places and strides of one layer, in elements of the slot's type.
struct KvLayer {
  uint32_t n_heads = 1;
  uint32_t key_width = 0;
  uint32_t value_width = 0;  // stored; 0: values are the front of the keys
  uint32_t window = 0;
  // capacity; with a window the least multiple of 64 that is at least window - 1 + max_rows, if
  // that is less than capacity.
  uint32_t places = 0;
  bool is_ring = false;  // fewer places than capacity
  uint32_t ring() const noexcept { return is_ring ? places : 0; }
  size_t key_head_stride() const noexcept { return size_t{places} * key_width; }
  size_t value_head_stride() const noexcept { return size_t{places} * value_width; }

  uint64_t keys_offset = 0, values_offset = 0;  // bytes from the slot's start, multiples of 64
};

class KvLayout {
 public:
  KvLayout() = default;
  KvLayout(const ModelConfig &config, const KvShape &shape);

  uint32_t capacity() const noexcept { return shape_.capacity; }
  KvType type() const noexcept { return shape_.type; }
  uint32_t n_layers() const noexcept { return static_cast<uint32_t>(layers_.size()); }
  const KvLayer &layer(uint32_t index) const noexcept { return layers_[index]; }
  uint32_t n_ring_layers() const noexcept;
  uint32_t index_width() const noexcept { return index_width_; }
  uint32_t n_index_layers() const noexcept { return n_index_layers_; }
  uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  // Bytes that one more position costs: layers with a window do not count.
  uint64_t bytes_per_position() const noexcept;

  uint8_t *keys(uint8_t *slot, uint32_t layer) const noexcept {
    return slot + layers_[layer].keys_offset;
  }
  // keys() if value_width is 0.
  uint8_t *values(uint8_t *slot, uint32_t layer) const noexcept {
    return slot + layers_[layer].values_offset;
  }
  // Place of one position in head 0.
  uint8_t *key_at(uint8_t *slot, uint32_t layer, uint32_t position) const noexcept;
  uint8_t *value_at(uint8_t *slot, uint32_t layer, uint32_t position) const noexcept;
  // nullptr for a layer without its own indexer.
  float *index_panels(uint8_t *slot, uint32_t layer) const noexcept;

  // First position that the next row of a slot of `length` positions sees in a windowed layer; 0
  // if no layer has a window.
  uint32_t first_needed(uint32_t length) const noexcept;
  // First position that windowed layers still have once positions [0, written) were written one
  // after another.
  uint32_t first_kept(uint32_t written) const noexcept;

  // Copies what a slot of `length` positions needs to go on: positions [0, length) of whole layers,
  // [first_needed(length), length) of windowed ones. Slots of this layout.
  void copy_prefix(const uint8_t *source, uint8_t *destination, uint32_t length) const noexcept;
  // The same to and from a blob: layer by layer, head by head, positions ascending, keys then
  // values, then index keys position by position. It depends on the type, not on capacity or
  // max_rows.
  uint64_t blob_bytes(uint32_t length) const noexcept;
  // Of one layer: its keys and values in the slot's type, and behind them its float32 index keys.
  uint64_t blob_entry_bytes(uint32_t layer, uint32_t length) const noexcept;
  uint64_t blob_index_bytes(uint32_t layer, uint32_t length) const noexcept;
  void save_prefix(const uint8_t *slot, uint32_t length, uint8_t *blob) const noexcept;
  void restore_prefix(uint8_t *slot, uint32_t length, const uint8_t *blob) const noexcept;

 private:
  KvShape shape_;
  std::vector<KvLayer> layers_;
  // Bytes from the start of a layer's panels to one element of a position.
  size_t index_place(uint32_t position, uint32_t element) const noexcept {
    const size_t panel = position / kIndexPanel;
    return ((panel * index_width_ + element) * kIndexPanel + position % kIndexPanel) *
           sizeof(float);
  }
  void set_places(KvLayer *layer) noexcept;
  uint64_t take_bytes(uint64_t n_bytes) noexcept;  // the offset of a new part of the slot
  // First position of a prefix that a layer keeps.
  uint32_t first_of_prefix(const KvLayer &layer, uint32_t length) const noexcept {
    return layer.window != 0 ? first_needed(length) : 0;
  }

  std::vector<int64_t> panels_offset_;  // per layer: bytes, -1 if none
  uint32_t index_width_ = 0;
  uint32_t n_index_layers_ = 0;
  uint32_t largest_window_ = 0;
  uint32_t least_places_ = 0;  // of windowed layers
  uint64_t slot_bytes_ = 0;
};

}  // namespace colibri

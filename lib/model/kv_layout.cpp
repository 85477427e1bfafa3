// SPDX-License-Identifier: Apache-2.0
//
// Offsets of a KV slot and the copies between slots and blobs. One walk over the runs of a prefix,
// head by head, serves all copies: places of a ring that lie before and behind its end are two
// runs.

#include "lib/model/kv_layout.h"

#include <algorithm>
#include <cstring>

namespace colibri {
namespace {

constexpr uint64_t kPartAlignment = 64;
constexpr uint32_t kRingUnit = 64;  // places

constexpr uint64_t align_up(uint64_t bytes) {
  return (bytes + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
}

// Calls visit(offset in the slot, bytes) for positions [first, end) of a layer in the order of a
// blob.
template <typename Visit>
void visit_runs(const KvLayer &layer, size_t element_bytes, uint32_t first, uint32_t end,
                const Visit &visit) {
  const struct {
    uint64_t offset;
    uint32_t width;
  } parts[] = {{layer.keys_offset, layer.key_width}, {layer.values_offset, layer.value_width}};
  for (const auto &part : parts) {
    if (part.width == 0) continue;
    const size_t place_bytes = part.width * element_bytes;
    for (uint32_t head = 0; head < layer.n_heads; ++head) {
      const uint64_t head_offset = part.offset + uint64_t{head} * layer.places * place_bytes;
      for (uint32_t position = first; position < end;) {
        const uint32_t place = position % layer.places;
        const uint32_t n = std::min(end - position, layer.places - place);
        visit(head_offset + uint64_t{place} * place_bytes, size_t{n} * place_bytes);
        position += n;
      }
    }
  }
}

}  // namespace

KvLayout::KvLayout(const ModelConfig &config, const KvShape &shape) : shape_(shape) {
  const bool is_latent = config.attention == AttentionKind::kLatent;
  const size_t element_bytes = kv_type_bytes(shape.type);
  index_width_ = config.index_top_k > 0 ? config.index_width : 0;
  layers_.resize(config.n_layers);
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    KvLayer &layer = layers_[i];
    layer.n_heads = is_latent ? 1 : config.n_kv_heads;
    layer.key_width = is_latent ? config.kv_latent + config.rotary.width : config.head_width;
    layer.value_width = is_latent ? 0 : config.head_width;
    layer.window = config.windows.empty() ? 0 : config.windows[i];
    set_places(&layer);
    layer.keys_offset = take_bytes(layer.n_heads * layer.key_head_stride() * element_bytes);
    layer.values_offset =
        layer.value_width == 0
            ? layer.keys_offset
            : take_bytes(layer.n_heads * layer.value_head_stride() * element_bytes);
    largest_window_ = std::max(largest_window_, layer.window);
  }
  panels_offset_.assign(config.n_layers, -1);
  if (index_width_ == 0) return;
  const uint64_t n_panels = (uint64_t{shape.capacity} + kIndexPanel - 1) / kIndexPanel;
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    if (config.indexer_kinds[i] != IndexerKind::kFull) continue;
    panels_offset_[i] =
        static_cast<int64_t>(take_bytes(n_panels * kIndexPanel * index_width_ * sizeof(float)));
    ++n_index_layers_;
  }
}

void KvLayout::set_places(KvLayer *layer) noexcept {
  layer->places = shape_.capacity;
  if (layer->window == 0) return;
  const uint64_t needed = uint64_t{layer->window} - 1 + shape_.max_rows;
  const uint64_t ring = (needed + kRingUnit - 1) / kRingUnit * kRingUnit;
  if (ring >= shape_.capacity) return;
  layer->places = static_cast<uint32_t>(ring);
  layer->is_ring = true;
  least_places_ = least_places_ == 0 ? layer->places : std::min(least_places_, layer->places);
}

uint64_t KvLayout::take_bytes(uint64_t n_bytes) noexcept {
  const uint64_t offset = slot_bytes_;
  slot_bytes_ += align_up(n_bytes);
  return offset;
}

uint32_t KvLayout::n_ring_layers() const noexcept {
  return static_cast<uint32_t>(std::count_if(layers_.begin(), layers_.end(),
                                             [](const KvLayer &layer) { return layer.is_ring; }));
}

uint64_t KvLayout::bytes_per_position() const noexcept {
  uint64_t elements = 0;
  for (const KvLayer &layer : layers_) {
    if (layer.window != 0) continue;
    elements += uint64_t{layer.n_heads} * (layer.key_width + layer.value_width);
  }
  return elements * kv_type_bytes(shape_.type) +
         uint64_t{n_index_layers_} * index_width_ * sizeof(float);
}

uint8_t *KvLayout::key_at(uint8_t *slot, uint32_t layer, uint32_t position) const noexcept {
  const KvLayer &kv = layers_[layer];
  const size_t place = position % kv.places;
  return keys(slot, layer) + place * kv.key_width * kv_type_bytes(shape_.type);
}

uint8_t *KvLayout::value_at(uint8_t *slot, uint32_t layer, uint32_t position) const noexcept {
  const KvLayer &kv = layers_[layer];
  const size_t place = position % kv.places;
  const uint32_t width = kv.value_width == 0 ? kv.key_width : kv.value_width;
  return values(slot, layer) + place * width * kv_type_bytes(shape_.type);
}

float *KvLayout::index_panels(uint8_t *slot, uint32_t layer) const noexcept {
  const int64_t offset = panels_offset_[layer];
  return offset < 0 ? nullptr : reinterpret_cast<float *>(slot + offset);
}

uint32_t KvLayout::first_needed(uint32_t length) const noexcept {
  return largest_window_ != 0 && length >= largest_window_ ? length + 1 - largest_window_ : 0;
}

uint32_t KvLayout::first_kept(uint32_t written) const noexcept {
  return least_places_ != 0 && written > least_places_ ? written - least_places_ : 0;
}

void KvLayout::copy_prefix(const uint8_t *source, uint8_t *destination,
                           uint32_t length) const noexcept {
  const size_t n_panels = (size_t{length} + kIndexPanel - 1) / kIndexPanel;
  for (uint32_t i = 0; i < n_layers(); ++i) {
    visit_runs(layers_[i], kv_type_bytes(shape_.type), first_of_prefix(layers_[i], length), length,
               [&](uint64_t offset, size_t n_bytes) {
                 std::memcpy(destination + offset, source + offset, n_bytes);
               });
    const int64_t panels = panels_offset_[i];
    if (panels < 0) continue;
    // The last panel may hold lanes beyond the prefix; they are overwritten before they are read.
    std::memcpy(destination + panels, source + panels,
                n_panels * kIndexPanel * index_width_ * sizeof(float));
  }
}

uint64_t KvLayout::blob_entry_bytes(uint32_t layer, uint32_t length) const noexcept {
  const KvLayer &kv = layers_[layer];
  const uint64_t elements = uint64_t{kv.n_heads} * (kv.key_width + kv.value_width);
  return (length - first_of_prefix(kv, length)) * elements * kv_type_bytes(shape_.type);
}

uint64_t KvLayout::blob_index_bytes(uint32_t layer, uint32_t length) const noexcept {
  return panels_offset_[layer] < 0 ? 0 : uint64_t{length} * index_width_ * sizeof(float);
}

uint64_t KvLayout::blob_bytes(uint32_t length) const noexcept {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n_layers(); ++i) {
    sum += blob_entry_bytes(i, length) + blob_index_bytes(i, length);
  }
  return sum;
}

void KvLayout::save_prefix(const uint8_t *slot, uint32_t length, uint8_t *blob) const noexcept {
  for (uint32_t i = 0; i < n_layers(); ++i) {
    visit_runs(layers_[i], kv_type_bytes(shape_.type), first_of_prefix(layers_[i], length), length,
               [&](uint64_t offset, size_t n_bytes) {
                 std::memcpy(blob, slot + offset, n_bytes);
                 blob += n_bytes;
               });
    if (panels_offset_[i] < 0) continue;
    const uint8_t *panels = slot + panels_offset_[i];
    for (uint32_t position = 0; position < length; ++position) {
      for (uint32_t e = 0; e < index_width_; ++e) {
        std::memcpy(blob, panels + index_place(position, e), sizeof(float));
        blob += sizeof(float);
      }
    }
  }
}

void KvLayout::restore_prefix(uint8_t *slot, uint32_t length, const uint8_t *blob) const noexcept {
  for (uint32_t i = 0; i < n_layers(); ++i) {
    visit_runs(layers_[i], kv_type_bytes(shape_.type), first_of_prefix(layers_[i], length), length,
               [&](uint64_t offset, size_t n_bytes) {
                 std::memcpy(slot + offset, blob, n_bytes);
                 blob += n_bytes;
               });
    if (panels_offset_[i] < 0) continue;
    uint8_t *panels = slot + panels_offset_[i];
    for (uint32_t position = 0; position < length; ++position) {
      for (uint32_t e = 0; e < index_width_; ++e) {
        std::memcpy(panels + index_place(position, e), blob, sizeof(float));
        blob += sizeof(float);
      }
    }
  }
}

}  // namespace colibri

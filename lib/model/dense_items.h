// SPDX-License-Identifier: Apache-2.0
//
// Which tensors make up the dense weights, and where in their buffer each one goes.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/dense_weights.h"

namespace colibri {

// The two halves of kv_b_proj for one head.
struct KvUpLayouts {
  WeightLayout key_up, value_up;
};

// One tensor and where it goes. Exactly one of the targets matrix, vector and kv_up is set.
struct DenseItem {
  const std::string *name = nullptr;
  const WeightSource *source = nullptr;  // nullptr: kv_b_proj that is packed by heads
  TensorSpan packed;                     // stored as memory has it, `bytes` long; else absent
  PackedMatrix *matrix = nullptr;
  const float **vector = nullptr;
  LayerWeights *kv_up = nullptr;  // key_up and value_up of all heads, head after head
  KvUpLayouts kv_layouts;         // kv_up only
  uint64_t offset = 0;            // in the buffer, a multiple of 64
  uint64_t bytes = 0;
};

// The snapshot and `weights` must outlive the list.
class DenseList {
 public:
  // Sizes `weights->layers`. Throws Error(kFormat) if the sum of all sizes overflows.
  DenseList(const Snapshot &snapshot, DenseWeights *weights);

  const std::vector<DenseItem> &items() const noexcept { return items_; }
  uint64_t total_bytes() const noexcept { return total_bytes_; }
  // Sets every target to its place in `base` (64-byte aligned, total_bytes()).
  void bind(uint8_t *base, DenseWeights *weights) const;

 private:
  void add(const DenseItem &item);
  void add_matrix(const WeightSource &source, PackedMatrix *target);
  void add_vector(const WeightSource &source, const float **target);
  void add_kv_up(const LayerSources &sources, LayerWeights *layer);
  void add_layer(const LayerSources &sources, LayerWeights *layer);
  void bind_kv_up(const DenseItem &item, uint8_t *place) const;

  const ModelConfig &config_;
  std::vector<DenseItem> items_;
  uint64_t total_bytes_ = 0;
  PackedMatrix *tied_head_ = nullptr;
};

}  // namespace colibri

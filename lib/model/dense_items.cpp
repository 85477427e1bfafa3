// SPDX-License-Identifier: Apache-2.0
//
// Sizes of packed matrices are multiples of the alignment of places, so that nothing lies between
// the matrices of a packed tensor, neither in the file nor here.

#include "lib/model/dense_items.h"

#include <cassert>

#include "lib/base/checked_math.h"
#include "lib/residency/weight_packing.h"

namespace colibri {
namespace {

constexpr uint64_t kPlaceAlignment = 64;

WeightFormat exact_float_format(StoredFormat format) {
  if (format == StoredFormat::kBF16) return WeightFormat::kBF16;
  if (format == StoredFormat::kF16) return WeightFormat::kF16;
  return WeightFormat::kF32;
}

KvUpLayouts unpacked_layouts(const ModelConfig &config, const WeightSource &source) {
  KvUpLayouts layouts;
  layouts.key_up.format = exact_float_format(source.format);
  layouts.key_up.columns = config.kv_latent;
  layouts.key_up.depth = config.nope_width;
  // Row slices of the stored matrix keep their form. FP8 is the exception: a head's rows begin
  // inside a block.
  if (source.format == StoredFormat::kFp8Block) {
    layouts.value_up.format = WeightFormat::kF32;
  } else {
    layouts.value_up = packed_layout(source);
  }
  layouts.value_up.columns = config.value_width;
  layouts.value_up.depth = config.kv_latent;
  return layouts;
}

KvUpLayouts kv_up_layouts(const ModelConfig &config, const LayerSources &sources) {
  if (sources.kv_heads.is_present()) return {sources.kv_heads.key_up, sources.kv_heads.value_up};
  return unpacked_layouts(config, sources.kv_b);
}

uint64_t place_bytes(uint64_t bytes) {
  return checked_align_up(bytes, kPlaceAlignment, "dense weights");
}

}  // namespace

DenseList::DenseList(const Snapshot &snapshot, DenseWeights *weights) : config_(snapshot.config()) {
  const ModelSources &sources = snapshot.sources();
  weights->layers.resize(sources.layers.size());
  add_matrix(sources.embedding, &weights->embedding);
  if (config_.ties_embedding) {
    tied_head_ = &weights->head;
  } else {
    add_matrix(sources.head, &weights->head);
  }
  add_vector(sources.final_norm, &weights->final_norm);
  for (size_t i = 0; i < sources.layers.size(); ++i)
    add_layer(sources.layers[i], &weights->layers[i]);
}

void DenseList::bind(uint8_t *base, DenseWeights *weights) const {
  for (const DenseItem &item : items_) {
    uint8_t *place = base + item.offset;
    if (item.matrix != nullptr) *item.matrix = {packed_layout(*item.source), place};
    if (item.vector != nullptr) *item.vector = reinterpret_cast<const float *>(place);
    if (item.kv_up != nullptr) bind_kv_up(item, place);
  }
  if (tied_head_ != nullptr) *tied_head_ = weights->embedding;
}

void DenseList::add(const DenseItem &item) {
  assert(item.packed.bytes == 0 || item.packed.bytes == item.bytes);
  items_.push_back(item);
  items_.back().offset = total_bytes_;
  total_bytes_ = checked_add(total_bytes_, place_bytes(item.bytes), "dense weights");
}

void DenseList::add_matrix(const WeightSource &source, PackedMatrix *target) {
  if (source.name.empty()) return;
  DenseItem item;
  item.name = &source.name;
  item.source = &source;
  item.matrix = target;
  item.bytes = packed_layout(source).total_bytes();
  if (source.format == StoredFormat::kPacked) item.packed = source.values;
  add(item);
}

void DenseList::add_vector(const WeightSource &source, const float **target) {
  if (source.name.empty()) return;
  DenseItem item;
  item.name = &source.name;
  item.source = &source;
  item.vector = target;
  item.bytes = checked_multiply(source.rows * source.columns, sizeof(float), "a norm's size");
  add(item);
}

void DenseList::add_kv_up(const LayerSources &sources, LayerWeights *layer) {
  const bool is_packed = sources.kv_heads.is_present();
  DenseItem item;
  item.name = is_packed ? &sources.kv_heads.name : &sources.kv_b.name;
  item.source = is_packed ? nullptr : &sources.kv_b;
  item.packed = sources.kv_heads.values;
  item.kv_up = layer;
  item.kv_layouts = kv_up_layouts(config_, sources);
  item.bytes = config_.n_heads * (place_bytes(item.kv_layouts.key_up.total_bytes()) +
                                  place_bytes(item.kv_layouts.value_up.total_bytes()));
  add(item);
}

void DenseList::add_layer(const LayerSources &sources, LayerWeights *layer) {
  add_vector(sources.input_norm, &layer->input_norm);
  add_vector(sources.attention_norm, &layer->attention_norm);
  add_matrix(sources.query_a, &layer->query_a);
  add_vector(sources.query_a_norm, &layer->query_a_norm);
  add_matrix(sources.query_b, &layer->query_b);
  add_matrix(sources.kv_a, &layer->kv_a);
  add_vector(sources.kv_a_norm, &layer->kv_a_norm);
  if (config_.attention == AttentionKind::kLatent) add_kv_up(sources, layer);
  add_matrix(sources.query, &layer->query);
  add_vector(sources.query_bias, &layer->query_bias);
  add_matrix(sources.key, &layer->key);
  add_vector(sources.key_bias, &layer->key_bias);
  add_matrix(sources.value, &layer->value);
  add_vector(sources.value_bias, &layer->value_bias);
  add_vector(sources.query_norm, &layer->query_norm);
  add_vector(sources.key_norm, &layer->key_norm);
  add_vector(sources.sinks, &layer->sinks);
  add_matrix(sources.output, &layer->output);
  add_vector(sources.output_bias, &layer->output_bias);
  add_matrix(sources.index_query, &layer->index_query);
  add_matrix(sources.index_key, &layer->index_key);
  add_matrix(sources.index_weights, &layer->index_weights);
  add_vector(sources.index_key_norm, &layer->index_key_norm);
  add_vector(sources.index_key_norm_bias, &layer->index_key_norm_bias);
  add_matrix(sources.dense_gate, &layer->dense_gate);
  add_matrix(sources.dense_up, &layer->dense_up);
  add_matrix(sources.dense_down, &layer->dense_down);
  add_matrix(sources.shared_gate, &layer->shared_gate);
  add_matrix(sources.router, &layer->router);
  add_vector(sources.router_bias, &layer->router_bias);
  add_vector(sources.selection_bias, &layer->selection_bias);
}

void DenseList::bind_kv_up(const DenseItem &item, uint8_t *place) const {
  const KvUpLayouts &layouts = item.kv_layouts;
  item.kv_up->key_up.resize(config_.n_heads);
  item.kv_up->value_up.resize(config_.n_heads);
  for (uint32_t head = 0; head < config_.n_heads; ++head) {
    item.kv_up->key_up[head] = {layouts.key_up, place};
    place += place_bytes(layouts.key_up.total_bytes());
    item.kv_up->value_up[head] = {layouts.value_up, place};
    place += place_bytes(layouts.value_up.total_bytes());
  }
}

}  // namespace colibri

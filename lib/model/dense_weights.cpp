// SPDX-License-Identifier: Apache-2.0
//
// Lists every dense tensor with its target, gives each a place in one buffer, and fills the places
// in parallel. A large matrix is cut into slices of whole panels, so that staging stays small and
// threads share the work.

#include "lib/model/dense_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"
#include "lib/residency/weight_packing.h"

namespace colibri {
namespace {

constexpr uint64_t kPlaceAlignment = 64;
constexpr uint64_t kSliceRows =
    128;  // a slice begins at a multiple of this: whole panels and FP8 blocks
static_assert(kSliceRows % kPanelColumns == 0 && kSliceRows % kFp8BlockWidth == 0);

// One tensor and where it goes. Exactly one target is set; kv_b has two.
struct DenseItem {
  const WeightSource *source = nullptr;
  PackedMatrix *matrix = nullptr;
  const float **vector = nullptr;
  LayerWeights *kv_b = nullptr;
  uint64_t offset = 0;  // in the buffer
  uint64_t bytes = 0;
};

// The layouts of the two halves of kv_b_proj for one head.
struct KvUpLayouts {
  WeightLayout key_up, value_up;
};

WeightFormat exact_float_format(StoredFormat format) {
  if (format == StoredFormat::kBF16) return WeightFormat::kBF16;
  if (format == StoredFormat::kF16) return WeightFormat::kF16;
  return WeightFormat::kF32;
}

KvUpLayouts kv_up_layouts(const ModelConfig &config, const WeightSource &source) {
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

uint64_t place_bytes(uint64_t bytes) {
  return checked_align_up(bytes, kPlaceAlignment, "dense weights");
}

class DenseList {
 public:
  DenseList(const Snapshot &snapshot, DenseWeights *weights) : config_(snapshot.config()) {
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

  std::vector<DenseItem> &items() { return items_; }
  uint64_t total_bytes() const { return total_bytes_; }

  // Sets every target to its place in `base`.
  void bind(uint8_t *base, DenseWeights *weights) {
    for (DenseItem &item : items_) {
      uint8_t *place = base + item.offset;
      if (item.matrix != nullptr) *item.matrix = {packed_layout(*item.source), place};
      if (item.vector != nullptr) *item.vector = reinterpret_cast<const float *>(place);
      if (item.kv_b != nullptr) bind_kv_b(item, place);
    }
    if (tied_head_ != nullptr) *tied_head_ = weights->embedding;
  }

 private:
  void add(DenseItem item) {
    item.offset = total_bytes_;
    total_bytes_ = checked_add(total_bytes_, place_bytes(item.bytes), "dense weights");
    items_.push_back(item);
  }

  void add_matrix(const WeightSource &source, PackedMatrix *target) {
    if (source.name.empty()) return;
    DenseItem item;
    item.source = &source;
    item.matrix = target;
    item.bytes = packed_layout(source).total_bytes();
    add(item);
  }

  void add_vector(const WeightSource &source, const float **target) {
    if (source.name.empty()) return;
    DenseItem item;
    item.source = &source;
    item.vector = target;
    item.bytes = checked_multiply(source.rows * source.columns, sizeof(float), "a norm's size");
    add(item);
  }

  void add_kv_b(const WeightSource &source, LayerWeights *layer) {
    const KvUpLayouts layouts = kv_up_layouts(config_, source);
    DenseItem item;
    item.source = &source;
    item.kv_b = layer;
    item.bytes = config_.n_heads * (place_bytes(layouts.key_up.total_bytes()) +
                                    place_bytes(layouts.value_up.total_bytes()));
    add(item);
  }

  void add_layer(const LayerSources &sources, LayerWeights *layer) {
    add_vector(sources.input_norm, &layer->input_norm);
    add_vector(sources.attention_norm, &layer->attention_norm);
    add_matrix(sources.query_a, &layer->query_a);
    add_vector(sources.query_a_norm, &layer->query_a_norm);
    add_matrix(sources.query_b, &layer->query_b);
    add_matrix(sources.kv_a, &layer->kv_a);
    add_vector(sources.kv_a_norm, &layer->kv_a_norm);
    add_kv_b(sources.kv_b, layer);
    add_matrix(sources.output, &layer->output);
    add_matrix(sources.index_query, &layer->index_query);
    add_matrix(sources.index_key, &layer->index_key);
    add_matrix(sources.index_weights, &layer->index_weights);
    add_vector(sources.index_key_norm, &layer->index_key_norm);
    add_vector(sources.index_key_norm_bias, &layer->index_key_norm_bias);
    add_matrix(sources.dense_gate, &layer->dense_gate);
    add_matrix(sources.dense_up, &layer->dense_up);
    add_matrix(sources.dense_down, &layer->dense_down);
    add_matrix(sources.router, &layer->router);
    add_vector(sources.router_bias, &layer->router_bias);
  }

  void bind_kv_b(const DenseItem &item, uint8_t *place) {
    const KvUpLayouts layouts = kv_up_layouts(config_, *item.source);
    item.kv_b->key_up.resize(config_.n_heads);
    item.kv_b->value_up.resize(config_.n_heads);
    for (uint32_t head = 0; head < config_.n_heads; ++head) {
      item.kv_b->key_up[head] = {layouts.key_up, place};
      place += place_bytes(layouts.key_up.total_bytes());
      item.kv_b->value_up[head] = {layouts.value_up, place};
      place += place_bytes(layouts.value_up.total_bytes());
    }
  }

  const ModelConfig &config_;
  std::vector<DenseItem> items_;
  uint64_t total_bytes_ = 0;
  PackedMatrix *tied_head_ = nullptr;
};

// Rows [first, first + rows) of a stored matrix as a matrix of its own; first is a multiple of
// kFp8BlockWidth for FP8.
WeightSource slice_rows(const WeightSource &source, uint64_t first, uint64_t rows) {
  WeightSource slice = source;
  slice.rows = rows;
  const uint64_t row_bytes = source.values.bytes / source.rows;
  slice.values.offset += first * row_bytes;
  slice.values.bytes = rows * row_bytes;
  if (source.scales.bytes > 0) {
    const bool is_block = source.format == StoredFormat::kFp8Block;
    const uint64_t scale_rows = is_block ? divide_up(source.rows, kFp8BlockWidth) : source.rows;
    const uint64_t scale_row_bytes = source.scales.bytes / scale_rows;
    slice.scales.offset += (is_block ? first / kFp8BlockWidth : first) * scale_row_bytes;
    slice.scales.bytes = (is_block ? divide_up(rows, kFp8BlockWidth) : rows) * scale_row_bytes;
  }
  return slice;
}

// A piece of work: one vector, one kv_b_proj, or some rows of a matrix.
struct LoadUnit {
  const DenseItem *item = nullptr;
  uint64_t first_row = 0;
  uint64_t rows = 0;
  uint64_t bytes = 0;  // of progress
};

std::vector<LoadUnit> cut_into_units(const std::vector<DenseItem> &items) {
  std::vector<LoadUnit> units;
  for (const DenseItem &item : items) {
    const WeightSource &source = *item.source;
    if (item.matrix == nullptr) {
      units.push_back({&item, 0, source.rows, item.bytes});
      continue;
    }
    const uint64_t row_bytes = std::max<uint64_t>(1, source.values.bytes / source.rows);
    const uint64_t step = std::max<uint64_t>(
        kSliceRows, DenseWeights::kLoadSliceBytes / row_bytes / kSliceRows * kSliceRows);
    for (uint64_t first = 0; first < source.rows; first += step) {
      const uint64_t rows = std::min(step, source.rows - first);
      units.push_back({&item, first, rows, item.bytes / source.rows * rows});
    }
  }
  return units;
}

class UnitLoader {
 public:
  UnitLoader(const Snapshot &snapshot, uint8_t *base) : snapshot_(snapshot), base_(base) {}

  // Staging is grown as needed; one per worker.
  struct Staging {
    Buffer raw, packed;
    void reserve(Buffer *buffer, uint64_t bytes) const {
      if (buffer->size() < bytes) *buffer = Buffer(bytes, "staging of dense weights");
    }
  };

  void load(const LoadUnit &unit, Staging *staging) const {
    uint8_t *place = base_ + unit.item->offset;
    if (unit.item->vector != nullptr) {
      throw_if_failed(
          read_as_float(snapshot_.index(), *unit.item->source, reinterpret_cast<float *>(place)));
    } else if (unit.item->kv_b != nullptr) {
      load_kv_b(*unit.item);
      load_value_up(*unit.item, staging);
    } else {
      load_rows(unit, place, staging);
    }
  }

 private:
  void load_rows(const LoadUnit &unit, uint8_t *place, Staging *staging) const {
    const WeightLayout whole = packed_layout(*unit.item->source);
    const WeightSource slice = slice_rows(*unit.item->source, unit.first_row, unit.rows);
    const WeightLayout layout = packed_layout(slice);
    staging->reserve(&staging->raw, staging_bytes(slice));
    staging->reserve(&staging->packed, layout.total_bytes());
    throw_if_failed(load_packed(snapshot_.index(), slice,
                                {staging->raw.data(), staging->raw.size()}, staging->packed.data(),
                                nullptr));
    const size_t first_panel = unit.first_row / kPanelColumns;
    std::memcpy(place + first_panel * whole.panel_bytes(), staging->packed.data(),
                layout.n_panels() * layout.panel_bytes());
    if (!whole.has_scales()) return;
    std::memcpy(place + whole.scale_offset() + first_panel * whole.scale_panel_bytes(),
                staging->packed.data() + layout.scale_offset(),
                layout.n_panels() * whole.scale_panel_bytes());
  }

  // Key parts, transposed, and the value parts that have no stored form of their own.
  void load_kv_b(const DenseItem &item) const {
    const ModelConfig &config = snapshot_.config();
    const WeightSource &source = *item.source;
    Buffer dequantised(source.rows * source.columns * sizeof(float), "kv_b_proj in float");
    read_dequantised(snapshot_.index(), source, dequantised.as<float>());
    Buffer transposed(uint64_t{config.nope_width} * config.kv_latent * sizeof(float),
                      "a transposed kv_b_proj");
    const size_t head_rows = config.nope_width + config.value_width;
    for (uint32_t head = 0; head < config.n_heads; ++head) {
      const float *rows = dequantised.as<float>() + head * head_rows * config.kv_latent;
      pack_key_up(item.kv_b->key_up[head], rows, transposed.data());
      if (source.format != StoredFormat::kFp8Block) continue;
      const PackedMatrix &value_up = item.kv_b->value_up[head];
      RowMajorMatrix stored;
      stored.values =
          reinterpret_cast<const uint8_t *>(rows + size_t{config.nope_width} * config.kv_latent);
      pack_matrix(value_up.layout, stored, const_cast<uint8_t *>(value_up.values));
    }
  }

  void pack_key_up(const PackedMatrix &target, const float *rows, uint8_t *transposed) const {
    const size_t latent = target.layout.columns;
    const size_t nope = target.layout.depth;
    for (size_t c = 0; c < latent; ++c) {
      for (size_t d = 0; d < nope; ++d) {
        const float value = rows[d * latent + c];
        const size_t at = c * nope + d;
        switch (target.layout.format) {
          case WeightFormat::kBF16:
            reinterpret_cast<uint16_t *>(transposed)[at] = float_to_bf16(value);
            break;
          case WeightFormat::kF16:
            reinterpret_cast<uint16_t *>(transposed)[at] = float_to_f16(value);
            break;
          default:
            reinterpret_cast<float *>(transposed)[at] = value;
            break;
        }
      }
    }
    RowMajorMatrix stored;
    stored.values = transposed;
    pack_matrix(target.layout, stored, const_cast<uint8_t *>(target.values));
  }

  void load_value_up(const DenseItem &item, Staging *staging) const {
    const ModelConfig &config = snapshot_.config();
    if (item.source->format == StoredFormat::kFp8Block) return;
    const uint64_t head_rows = config.nope_width + config.value_width;
    for (uint32_t head = 0; head < config.n_heads; ++head) {
      const WeightSource slice =
          slice_rows(*item.source, head * head_rows + config.nope_width, config.value_width);
      staging->reserve(&staging->raw, staging_bytes(slice));
      throw_if_failed(
          load_packed(snapshot_.index(), slice, {staging->raw.data(), staging->raw.size()},
                      const_cast<uint8_t *>(item.kv_b->value_up[head].values), nullptr));
    }
  }

  const Snapshot &snapshot_;
  uint8_t *base_;
};

}  // namespace

uint64_t DenseWeights::bytes(const Snapshot &snapshot) {
  DenseWeights unbound;
  return DenseList(snapshot, &unbound).total_bytes();
}

void DenseWeights::load(const Snapshot &snapshot, ThreadPool &threads,
                        const std::function<bool(uint64_t, uint64_t)> &progress) {
  DenseList list(snapshot, this);
  memory_ = Buffer(list.total_bytes(), "dense weights");
  list.bind(memory_.data(), this);
  const std::vector<LoadUnit> units = cut_into_units(list.items());
  const UnitLoader loader(snapshot, memory_.data());
  std::vector<UnitLoader::Staging> staging(threads.n_threads());

  // A round has several units per thread: enough to keep threads busy, short enough to hear a
  // cancel soon.
  const size_t round = size_t{threads.n_threads()} * 4;
  std::vector<Status> outcomes(round);
  uint64_t done_bytes = 0;
  for (size_t first = 0; first < units.size(); first += round) {
    const size_t n = std::min(round, units.size() - first);
    threads.parallel_for(n, [&](size_t task, uint32_t worker) {
      try {
        loader.load(units[first + task], &staging[worker]);
        outcomes[task] = Status();
      } catch (const Error &error) {
        outcomes[task] = error.status();
      } catch (...) {
        outcomes[task] = make_status(StatusCode::kMemory, "no memory for loading %s",
                                     units[first + task].item->source->name.c_str());
      }
    });
    for (size_t i = 0; i < n; ++i) {
      throw_if_failed(outcomes[i]);
      done_bytes += units[first + i].bytes;
    }
    const bool is_last = first + n == units.size();
    const uint64_t reported =
        is_last ? list.total_bytes() : std::min(done_bytes, list.total_bytes());
    if (progress && !progress(reported, list.total_bytes())) {
      throw_error(StatusCode::kCancelled,
                  "the host stopped opening the model at %llu of %llu bytes",
                  static_cast<unsigned long long>(reported),
                  static_cast<unsigned long long>(list.total_bytes()));
    }
  }
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// A large matrix is cut into slices of whole panels, so that staging stays small and threads share
// the work; a packed tensor is cut anywhere, since its bytes are those of memory.

#include "lib/model/dense_loader.h"

#include <algorithm>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"
#include "lib/residency/weight_packing.h"

namespace colibri {
namespace {

constexpr uint64_t kSliceRows =
    128;  // a slice begins at a multiple of this: whole panels and FP8 blocks
static_assert(kSliceRows % kPanelColumns == 0 && kSliceRows % kFp8BlockWidth == 0);

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

void cut_packed(const DenseItem &item, std::vector<LoadUnit> *units) {
  constexpr uint64_t kStep = DenseWeights::kLoadSliceBytes;
  for (uint64_t first = 0; first < item.bytes; first += kStep) {
    const uint64_t bytes = std::min(kStep, item.bytes - first);
    units->push_back({&item, first, bytes, bytes});
  }
}

void cut_rows(const DenseItem &item, std::vector<LoadUnit> *units) {
  const WeightSource &source = *item.source;
  const uint64_t row_bytes = std::max<uint64_t>(1, source.values.bytes / source.rows);
  const uint64_t step = std::max<uint64_t>(
      kSliceRows, DenseWeights::kLoadSliceBytes / row_bytes / kSliceRows * kSliceRows);
  for (uint64_t first = 0; first < source.rows; first += step) {
    const uint64_t rows = std::min(step, source.rows - first);
    units->push_back({&item, first, rows, item.bytes / source.rows * rows});
  }
}

void reserve(Buffer *buffer, uint64_t bytes) {
  if (buffer->size() < bytes) *buffer = Buffer(bytes, "staging of dense weights");
}

void pack_key_up(const PackedMatrix &target, const float *rows, uint8_t *transposed) {
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
  PackingSource stored;
  stored.values = transposed;
  pack_matrix(target.layout, stored, const_cast<uint8_t *>(target.values));
}

}  // namespace

std::vector<LoadUnit> cut_into_units(const std::vector<DenseItem> &items) {
  std::vector<LoadUnit> units;
  for (const DenseItem &item : items) {
    if (item.packed.bytes != 0) {
      cut_packed(item, &units);
    } else if (item.matrix != nullptr) {
      cut_rows(item, &units);
    } else {
      units.push_back({&item, 0, item.source->rows, item.bytes});
    }
  }
  return units;
}

void UnitLoader::load(const LoadUnit &unit, Staging *staging) const {
  const DenseItem &item = *unit.item;
  uint8_t *place = base_ + item.offset;
  if (item.packed.bytes != 0) {
    const TensorSpan span{item.packed.file, item.packed.offset + unit.first, unit.count};
    throw_if_failed(read_packed(snapshot_.index(), *item.name, span, place + unit.first, nullptr));
  } else if (item.vector != nullptr) {
    throw_if_failed(
        read_as_float(snapshot_.index(), *item.source, reinterpret_cast<float *>(place)));
  } else if (item.kv_up != nullptr) {
    load_kv_b(item);
    load_value_up(item, staging);
  } else {
    load_rows(unit, place, staging);
  }
}

void UnitLoader::load_rows(const LoadUnit &unit, uint8_t *place, Staging *staging) const {
  const WeightLayout whole = packed_layout(*unit.item->source);
  const WeightSource slice = slice_rows(*unit.item->source, unit.first, unit.count);
  const WeightLayout layout = packed_layout(slice);
  reserve(&staging->raw, staging_bytes(slice));
  reserve(&staging->packed, layout.total_bytes());
  throw_if_failed(load_packed(snapshot_.index(), slice, {staging->raw.data(), staging->raw.size()},
                              staging->packed.data(), nullptr));
  const size_t first_panel = unit.first / kPanelColumns;
  std::memcpy(place + first_panel * whole.panel_bytes(), staging->packed.data(),
              layout.n_panels() * layout.panel_bytes());
  if (!whole.has_scales()) return;
  std::memcpy(place + whole.scale_offset() + first_panel * whole.scale_panel_bytes(),
              staging->packed.data() + layout.scale_offset(),
              layout.n_panels() * whole.scale_panel_bytes());
}

// Key parts, transposed, and the value parts that have no stored form of their own.
void UnitLoader::load_kv_b(const DenseItem &item) const {
  const ModelConfig &config = snapshot_.config();
  const WeightSource &source = *item.source;
  Buffer dequantised(source.rows * source.columns * sizeof(float), "kv_b_proj in float");
  read_dequantised(snapshot_.index(), source, dequantised.as<float>());
  Buffer transposed(uint64_t{config.nope_width} * config.kv_latent * sizeof(float),
                    "a transposed kv_b_proj");
  const size_t head_rows = config.nope_width + config.value_width;
  for (uint32_t head = 0; head < config.n_heads; ++head) {
    const float *rows = dequantised.as<float>() + head * head_rows * config.kv_latent;
    pack_key_up(item.kv_up->key_up[head], rows, transposed.data());
    if (source.format != StoredFormat::kFp8Block) continue;
    const PackedMatrix &value_up = item.kv_up->value_up[head];
    PackingSource stored;
    stored.values =
        reinterpret_cast<const uint8_t *>(rows + size_t{config.nope_width} * config.kv_latent);
    pack_matrix(value_up.layout, stored, const_cast<uint8_t *>(value_up.values));
  }
}

void UnitLoader::load_value_up(const DenseItem &item, Staging *staging) const {
  const ModelConfig &config = snapshot_.config();
  if (item.source->format == StoredFormat::kFp8Block) return;
  const uint64_t head_rows = config.nope_width + config.value_width;
  for (uint32_t head = 0; head < config.n_heads; ++head) {
    const WeightSource slice =
        slice_rows(*item.source, head * head_rows + config.nope_width, config.value_width);
    reserve(&staging->raw, staging_bytes(slice));
    throw_if_failed(load_packed(snapshot_.index(), slice,
                                {staging->raw.data(), staging->raw.size()},
                                const_cast<uint8_t *>(item.kv_up->value_up[head].values), nullptr));
  }
}

}  // namespace colibri

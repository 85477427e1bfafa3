// SPDX-License-Identifier: Apache-2.0
//
// Rows are read by whoever computes with them, so that reading and computing of different threads
// overlap. weight_reader.cpp is the definition of the numbers; this one is as fast as the quantiser
// needs it.

#include "lib/convert/stored_rows.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"

namespace colibri {
namespace {

bool is_block(const WeightSource &source) {
  return source.format == StoredFormat::kFp8Block;
}

// Rows of scales that rows [first, first + n) use.
struct ScaleRows {
  uint64_t first, n;
};

ScaleRows scale_rows_of(const WeightSource &source, uint64_t first, uint64_t n) {
  if (scale_columns(source) == 0) return {0, 0};
  if (!is_block(source)) return {first, n};
  const uint64_t first_block = first / kFp8BlockWidth;
  return {first_block, divide_up(first + n, kFp8BlockWidth) - first_block};
}

const std::array<float, 256> &fp8_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table;
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = fp8_e4m3_to_float(static_cast<uint8_t>(i));
    }
    return table;
  }();
  return values;
}

uint16_t load_half(const uint8_t *from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

}  // namespace

void StoredRows::reserve(const WeightSource &source, uint64_t max_rows) {
  const uint64_t n = std::min(max_rows, source.rows);
  // Rows that begin inside a block touch one block more than their number says.
  const uint64_t n_scale_rows = is_block(source) ? divide_up(n, kFp8BlockWidth) + 1 : n;
  const uint64_t value_bytes = source.values.bytes / source.rows * n;
  const uint64_t n_scales = n_scale_rows * scale_columns(source);
  if (values_.size() < value_bytes) values_.resize(value_bytes);
  if (scales_.size() < n_scales) scales_.resize(n_scales);
  fp8_values();
}

Status StoredRows::read(const TensorIndex &index, const WeightSource &source, uint64_t first,
                        uint64_t n) noexcept {
  source_ = &source;
  first_ = first;
  n_ = n;
  const uint64_t row_bytes = source.values.bytes / source.rows;
  Status status = index.files()[source.values.file].reader->read_at(
      source.values.offset + first * row_bytes, values_.data(), n * row_bytes);
  const ScaleRows scale_rows = scale_rows_of(source, first, n);
  n_scale_rows_ = scale_rows.n;
  if (status.is_ok() && scale_rows.n != 0) {
    WeightSource slice;  // no name: nothing is allocated
    slice.format = source.format;
    slice.rows = n;
    slice.columns = source.columns;
    slice.group = source.group;
    slice.scale_type = source.scale_type;
    const uint64_t scale_row_bytes = scale_columns(source) * tensor_type_bytes(source.scale_type);
    slice.scales = {source.scales.file, source.scales.offset + scale_rows.first * scale_row_bytes,
                    scale_rows.n * scale_row_bytes};
    status = read_scales(index, slice, scales_.data());
  }
  if (status.is_ok()) return status;
  return make_status(status.code(), "tensor %s: %s", source.name.c_str(), status.message());
}

void StoredRows::widen_fp8(float *destination) const noexcept {
  const std::array<float, 256> &table = fp8_values();
  const uint64_t columns = source_->columns;
  const uint64_t n_blocks = scale_columns(*source_);
  const uint64_t first_block = first_ / kFp8BlockWidth;
  for (uint64_t row = 0; row < n_; ++row) {
    const float *scales = &scales_[((first_ + row) / kFp8BlockWidth - first_block) * n_blocks];
    const uint8_t *codes = values_.data() + row * columns;
    for (uint64_t column = 0; column < columns; ++column) {
      destination[row * columns + column] = table[codes[column]] * scales[column / kFp8BlockWidth];
    }
  }
}

void StoredRows::widen(float *destination) const noexcept {
  const uint64_t n_values = n_ * source_->columns;
  switch (source_->format) {
    case StoredFormat::kF32:
      std::memcpy(destination, values_.data(), n_values * sizeof(float));
      return;
    case StoredFormat::kBF16:
      for (uint64_t i = 0; i < n_values; ++i) {
        destination[i] = bf16_to_float(load_half(values_.data() + 2 * i));
      }
      return;
    case StoredFormat::kF16:
      for (uint64_t i = 0; i < n_values; ++i) {
        destination[i] = f16_to_float(load_half(values_.data() + 2 * i));
      }
      return;
    default:
      widen_fp8(destination);
  }
}

}  // namespace colibri

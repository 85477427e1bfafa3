// SPDX-License-Identifier: Apache-2.0
//
// Reads weights as float32: the definition of what stored bytes mean. Plain loops, one float32
// product per value; the packed and fast forms elsewhere are tested against this one.

#include <cstring>
#include <vector>

#include "lib/base/number_formats.h"
#include "lib/snapshot/weight_source.h"

namespace colibri {
namespace {

Status read_span(const TensorIndex &index, const TensorSpan &span, void *destination) noexcept {
  return index.files()[span.file].reader->read_at(span.offset, destination, span.bytes);
}

// Widens `n` 16-bit numbers that were read into the upper half of the float array. Ascending order
// is safe: value i lies at or behind float i, and is read before float i is written.
template <typename Convert>
void widen_halves(float *values, uint64_t n, Convert convert) noexcept {
  const char *halves = reinterpret_cast<const char *>(values) + 2 * n;
  for (uint64_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, halves + 2 * i, sizeof bits);
    values[i] = convert(bits);
  }
}

Status read_widened(const TensorIndex &index, const TensorSpan &span, TensorType type,
                    float *destination) noexcept {
  if (type == TensorType::kF32) return read_span(index, span, destination);
  // Read into the end of the destination, so that no second buffer is needed.
  const uint64_t n = span.bytes / 2;
  const Status status = read_span(index, span, reinterpret_cast<char *>(destination) + 2 * n);
  if (!status.is_ok()) return status;
  if (type == TensorType::kBF16) widen_halves(destination, n, bf16_to_float);
  if (type == TensorType::kF16) widen_halves(destination, n, f16_to_float);
  return status;
}

TensorType plain_type(StoredFormat format) noexcept {
  if (format == StoredFormat::kBF16) return TensorType::kBF16;
  return format == StoredFormat::kF16 ? TensorType::kF16 : TensorType::kF32;
}

bool is_plain(StoredFormat format) noexcept {
  return format == StoredFormat::kF32 || format == StoredFormat::kF16 ||
         format == StoredFormat::kBF16;
}

// Not all rows of what is stored, or not in the order of rows.
bool is_part(const WeightSource &source) noexcept {
  return source.first_row != 0 || source.row_step != 1 || source.is_transposed ||
         (source.stored_rows != 0 && source.stored_rows != source.rows);
}

uint64_t stored_row(const WeightSource &source, uint64_t row) noexcept {
  return source.first_row + row * source.row_step;
}

// One element of a plain matrix; `row` as stored.
float widen_element(const WeightSource &source, const uint8_t *values, uint64_t row,
                    uint64_t column) {
  const uint64_t n_rows = source.stored_rows != 0 ? source.stored_rows : source.rows;
  const uint64_t element =
      source.is_transposed ? column * n_rows + row : row * source.columns + column;
  if (source.format == StoredFormat::kF32) {
    float value;
    std::memcpy(&value, values + 4 * element, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, values + 2 * element, sizeof bits);
  return source.format == StoredFormat::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

// The stored code of one element.
float decode_element(const WeightSource &source, const uint8_t *values, uint64_t row,
                     uint64_t column) {
  switch (source.format) {
    case StoredFormat::kFp8Block:
      return fp8_e4m3_to_float(values[row * source.columns + column]);
    case StoredFormat::kInt8Row:
      return static_cast<float>(static_cast<int8_t>(values[row * source.columns + column]));
    default: {
      const uint8_t pair = values[row * ((source.columns + 1) / 2) + column / 2];
      const int nibble = column % 2 == 0 ? pair & 15 : pair >> 4;
      if (source.format == StoredFormat::kMxFp4) {
        return fp4_e2m1_to_float(static_cast<uint8_t>(nibble));
      }
      return static_cast<float>(nibble - 8);
    }
  }
}

uint64_t scale_index(const WeightSource &source, uint64_t row, uint64_t column) {
  switch (source.format) {
    case StoredFormat::kFp8Block:
      return (row / kFp8BlockWidth) * scale_columns(source) + column / kFp8BlockWidth;
    case StoredFormat::kInt4Grouped:
      return row * scale_columns(source) + column / source.group;
    case StoredFormat::kMxFp4:
      return row * scale_columns(source) + column / kMxFp4Group;
    default:
      return row;
  }
}

void unpack(const WeightSource &source, const uint8_t *values, float *destination) {
  const PackedMatrix matrix{source.packed, values};
  for (uint64_t row = 0; row < source.rows; ++row) {
    for (uint64_t column = 0; column < source.columns; ++column) {
      destination[row * source.columns + column] = unpack_weight(matrix, row, column);
    }
  }
}

}  // namespace

Status read_as_float(const TensorIndex &index, const WeightSource &source,
                     float *destination) noexcept {
  if (!is_plain(source.format) || is_part(source)) {
    return make_status(StatusCode::kInternal, "read_as_float of %s, which is stored as %s%s",
                       source.name.c_str(), stored_format_name(source.format),
                       is_part(source) ? " and part of a tensor" : "");
  }
  return read_widened(index, source.values, plain_type(source.format), destination);
}

Status read_scales(const TensorIndex &index, const WeightSource &source,
                   float *destination) noexcept {
  if (source.scales.bytes == 0) return {};
  if (source.scale_type != TensorType::kF8E8M0) {
    return read_widened(index, source.scales, source.scale_type, destination);
  }
  const uint64_t n = source.scales.bytes;
  uint8_t *exponents = reinterpret_cast<uint8_t *>(destination) + 3 * n;
  const Status status = read_span(index, source.scales, exponents);
  if (!status.is_ok()) return status;
  for (uint64_t i = 0; i < n; ++i) destination[i] = e8m0_to_float(exponents[i]);
  return status;
}

void read_dequantised(const TensorIndex &index, const WeightSource &source, float *destination) {
  if (is_plain(source.format) && !is_part(source)) {
    throw_if_failed(read_as_float(index, source, destination));
    return;
  }
  std::vector<uint8_t> values(source.values.bytes);
  throw_if_failed(read_span(index, source.values, values.data()));
  if (source.format == StoredFormat::kPacked) {
    unpack(source, values.data(), destination);
    return;
  }
  if (is_plain(source.format)) {
    for (uint64_t row = 0; row < source.rows; ++row) {
      for (uint64_t column = 0; column < source.columns; ++column) {
        destination[row * source.columns + column] =
            widen_element(source, values.data(), stored_row(source, row), column);
      }
    }
    return;
  }
  std::vector<float> scales(scale_rows(source) * scale_columns(source));
  throw_if_failed(read_scales(index, source, scales.data()));
  for (uint64_t row = 0; row < source.rows; ++row) {
    for (uint64_t column = 0; column < source.columns; ++column) {
      const uint64_t from = stored_row(source, row);
      const float code = decode_element(source, values.data(), from, column);
      destination[row * source.columns + column] = code * scales[scale_index(source, from, column)];
    }
  }
}

}  // namespace colibri

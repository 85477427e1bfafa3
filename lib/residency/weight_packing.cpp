// SPDX-License-Identifier: Apache-2.0
//
// Staging holds the stored values first and, at the next multiple of 64, the scales widened to
// float32, or the exponents of MXFP4 as they are. Values are moved, never converted; widening is
// exact. Packed matrices need neither.

#include "lib/residency/weight_packing.h"

#include <cinttypes>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"

namespace colibri {
namespace {

constexpr uint64_t kScaleAlignment = 64;

uint64_t align_up(uint64_t bytes) noexcept {
  return divide_up(bytes, kScaleAlignment) * kScaleAlignment;
}

uint64_t count_scales(const WeightSource &source) noexcept {
  return scale_rows(source) * scale_columns(source);
}

bool has_exponents(const WeightSource &source) noexcept {
  return source.format == StoredFormat::kMxFp4;
}

// In staging.
uint64_t scale_staging_bytes(const WeightSource &source) noexcept {
  return has_exponents(source) ? count_scales(source) : count_scales(source) * sizeof(float);
}

Status read_bytes_of(const TensorIndex &index, const TensorSpan &span, uint8_t *to) noexcept {
  return index.files()[span.file].reader->read_at(span.offset, to, static_cast<size_t>(span.bytes));
}

float widen_number(StoredFormat format, const uint8_t *numbers, uint64_t index) noexcept {
  if (format == StoredFormat::kF32) {
    float value;
    std::memcpy(&value, numbers + 4 * index, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, numbers + 2 * index, sizeof bits);
  return format == StoredFormat::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

// The reader names file, offset and system error; a person also wants to know which tensor it was.
Status name_tensor(const std::string &tensor, const Status &status) noexcept {
  if (status.is_ok()) return status;
  return make_status(status.code(), "tensor %s: %s", tensor.c_str(), status.message());
}

}  // namespace

WeightLayout packed_layout(const WeightSource &source) noexcept {
  WeightLayout layout;
  layout.columns = static_cast<uint32_t>(source.rows);
  layout.depth = static_cast<uint32_t>(source.columns);
  switch (source.format) {
    case StoredFormat::kF32:
      layout.format = WeightFormat::kF32;
      break;
    case StoredFormat::kF16:
      layout.format = WeightFormat::kF16;
      break;
    case StoredFormat::kBF16:
      layout.format = WeightFormat::kBF16;
      break;
    case StoredFormat::kFp8Block:
      layout.format = WeightFormat::kFp8;
      layout.group = kFp8BlockWidth;
      break;
    case StoredFormat::kInt8Row:
      layout.format = WeightFormat::kInt8;
      layout.group = kRowScaleActivationGroup;
      layout.has_row_scale = true;
      break;
    case StoredFormat::kInt4Row:
      layout.format = WeightFormat::kInt4;
      layout.group = kRowScaleActivationGroup;
      layout.has_row_scale = true;
      break;
    case StoredFormat::kInt4Grouped:
      layout.format = WeightFormat::kInt4;
      layout.group = source.group;
      break;
    case StoredFormat::kMxFp4:
      layout.format = WeightFormat::kMxFp4;
      layout.group = kMxFp4Group;
      layout.scale_type = ScaleType::kE8M0;
      break;
    case StoredFormat::kPacked:
      return source.packed;
  }
  return layout;
}

uint64_t staging_bytes(const WeightSource &source) noexcept {
  if (source.format == StoredFormat::kPacked) return 0;
  return align_up(source.values.bytes) + scale_staging_bytes(source);
}

Status read_stored(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint64_t *read_bytes) noexcept {
  const uint64_t needed = staging_bytes(source);
  const uint64_t scale_bytes = count_scales(source) * tensor_type_bytes(source.scale_type);
  if (staging.size() < needed || source.scales.bytes != scale_bytes) {
    return make_status(StatusCode::kInternal,
                       "tensor %s: %zu bytes of staging; needs %" PRIu64 "; %" PRIu64
                       " bytes of scales; needs %" PRIu64,
                       source.name.c_str(), staging.size(), needed, source.scales.bytes,
                       scale_bytes);
  }
  Status status = read_bytes_of(index, source.values, staging.data());
  if (status.is_ok() && source.scales.bytes != 0) {
    uint8_t *scales = staging.data() + align_up(source.values.bytes);
    status = has_exponents(source) ? read_bytes_of(index, source.scales, scales)
                                   : read_scales(index, source, reinterpret_cast<float *>(scales));
  }
  if (!status.is_ok()) return name_tensor(source.name, status);
  if (read_bytes != nullptr) *read_bytes += source.stored_bytes();
  return Status();
}

PackingSource stored_matrix(const WeightSource &source, std::span<const uint8_t> staging) noexcept {
  PackingSource matrix;
  matrix.values = staging.data();
  matrix.first_row = source.first_row;
  matrix.row_step = source.row_step;
  matrix.is_transposed = source.is_transposed;
  matrix.n_tensor_rows = source.stored_rows != 0 ? source.stored_rows : source.rows;
  if (count_scales(source) != 0) {
    const uint8_t *scales = staging.data() + align_up(source.values.bytes);
    if (has_exponents(source)) {
      matrix.scale_bytes = scales;
    } else {
      matrix.scales = reinterpret_cast<const float *>(scales);
    }
  }
  return matrix;
}

void pack_stored(const WeightSource &source, std::span<const uint8_t> staging,
                 uint8_t *destination) noexcept {
  pack_matrix(packed_layout(source), stored_matrix(source, staging), destination);
}

Status load_packed(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  if (source.format == StoredFormat::kPacked) {
    return read_packed(index, source.name, source.values, destination, read_bytes);
  }
  const Status status = read_stored(index, source, staging, read_bytes);
  if (status.is_ok()) pack_stored(source, staging, destination);
  return status;
}

WeightLayout vector_layout(const WeightSource &source) noexcept {
  if (source.format == StoredFormat::kPacked) return source.packed;
  WeightLayout layout;
  layout.columns = static_cast<uint32_t>(source.rows * source.columns);
  layout.depth = 1;
  return layout;
}

Status load_vector(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  if (source.format == StoredFormat::kPacked) {
    return read_packed(index, source.name, source.values, destination, read_bytes);
  }
  const Status status = read_stored(index, source, staging, read_bytes);
  if (!status.is_ok()) return status;
  const WeightLayout layout = vector_layout(source);
  std::memset(destination, 0, layout.total_bytes());
  for (uint64_t i = 0; i < layout.columns; ++i) {
    const float value =
        widen_number(source.format, staging.data(), source.first_row + i * source.row_step);
    std::memcpy(destination + i * sizeof value, &value, sizeof value);
  }
  return status;
}

Status read_packed(const TensorIndex &index, const std::string &tensor, const TensorSpan &span,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  const Reader &reader = *index.files()[span.file].reader;
  const Status status = reader.read_at(span.offset, destination, static_cast<size_t>(span.bytes));
  if (status.is_ok() && read_bytes != nullptr) *read_bytes += span.bytes;
  return name_tensor(tensor, status);
}

}  // namespace colibri

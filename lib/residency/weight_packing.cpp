// SPDX-License-Identifier: Apache-2.0
//
// Staging holds the stored values first and, at the next multiple of 64, the scales widened to
// float32. Values are moved, never converted; widening is exact. Packed matrices need neither.

#include "lib/residency/weight_packing.h"

#include <cinttypes>

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
    case StoredFormat::kMxFp4:  // never: require_runnable() and plan_conversion() refuse it
      break;
    case StoredFormat::kPacked:
      return source.packed;
  }
  return layout;
}

uint64_t staging_bytes(const WeightSource &source) noexcept {
  if (source.format == StoredFormat::kPacked) return 0;
  return align_up(source.values.bytes) + count_scales(source) * sizeof(float);
}

Status load_packed(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  if (source.format == StoredFormat::kPacked) {
    return read_packed(index, source.name, source.values, destination, read_bytes);
  }
  const uint64_t needed = staging_bytes(source);
  const uint64_t scale_bytes = count_scales(source) * tensor_type_bytes(source.scale_type);
  if (staging.size() < needed || source.scales.bytes != scale_bytes) {
    return make_status(StatusCode::kInternal,
                       "tensor %s: %zu bytes of staging; needs %" PRIu64 "; %" PRIu64
                       " bytes of scales; needs %" PRIu64,
                       source.name.c_str(), staging.size(), needed, source.scales.bytes,
                       scale_bytes);
  }
  const Reader &reader = *index.files()[source.values.file].reader;
  Status status = reader.read_at(source.values.offset, staging.data(),
                                 static_cast<size_t>(source.values.bytes));
  if (!status.is_ok()) return name_tensor(source.name, status);

  PackingSource matrix;
  matrix.values = staging.data();
  if (count_scales(source) != 0) {
    float *scales = reinterpret_cast<float *>(staging.data() + align_up(source.values.bytes));
    status = read_scales(index, source, scales);
    if (!status.is_ok()) return name_tensor(source.name, status);
    matrix.scales = scales;
  }
  pack_matrix(packed_layout(source), matrix, destination);
  if (read_bytes != nullptr) *read_bytes += source.stored_bytes();
  return Status();
}

Status read_packed(const TensorIndex &index, const std::string &tensor, const TensorSpan &span,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  const Reader &reader = *index.files()[span.file].reader;
  const Status status = reader.read_at(span.offset, destination, static_cast<size_t>(span.bytes));
  if (status.is_ok() && read_bytes != nullptr) *read_bytes += span.bytes;
  return name_tensor(tensor, status);
}

}  // namespace colibri

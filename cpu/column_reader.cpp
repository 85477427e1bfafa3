// SPDX-License-Identifier: Apache-2.0
//
// Plain loops: an embedding reads one column per token, which is nothing beside the layers.

#include "cpu/column_reader.h"

#include <cstring>

#include "lib/base/number_formats.h"

namespace colibri::cpu {
namespace {

template <typename T>
T load(const uint8_t *panel, size_t element) {
  T value;
  std::memcpy(&value, panel + element * sizeof(T), sizeof value);
  return value;
}

// Place of a lane's byte at depth d in an integer panel whose lines hold `line_depths` depths.
size_t byte_in_line(size_t d, size_t line_depths, size_t lane) {
  return d / line_depths * 64 + 4 * lane + d % 4;
}

// Weight of one lane at depth d, before its scale.
float decode(WeightFormat format, const uint8_t *panel, size_t d, size_t lane) {
  const size_t element = d * kPanelColumns + lane;
  switch (format) {
    case WeightFormat::kF32:
      return load<float>(panel, element);
    case WeightFormat::kBF16:
      return bf16_to_float(load<uint16_t>(panel, element));
    case WeightFormat::kF16:
      return f16_to_float(load<uint16_t>(panel, element));
    case WeightFormat::kFp8:
      return fp8_e4m3_to_float(panel[element]);
    case WeightFormat::kInt8:
      return static_cast<float>(panel[byte_in_line(d, 4, lane)] - 128);
    case WeightFormat::kInt4: {
      const int byte = panel[byte_in_line(d, 8, lane)];
      return static_cast<float>((d % 8 < 4 ? byte & 15 : byte >> 4) - 8);
    }
  }
  return 0.0f;
}

}  // namespace

void read_column(const PackedMatrix &matrix, size_t column, float *y) noexcept {
  const WeightLayout &layout = matrix.layout;
  const size_t panel = column / kPanelColumns;
  const size_t lane = column % kPanelColumns;
  const uint8_t *values = matrix.values + panel * layout.panel_bytes();
  for (size_t d = 0; d < layout.depth; ++d) y[d] = decode(layout.format, values, d, lane);
  if (!layout.has_scales()) return;
  const float *scales = matrix.scales() + panel * layout.scale_groups() * kPanelColumns + lane;
  for (size_t d = 0; d < layout.depth; ++d) {
    const size_t group = layout.has_row_scale ? 0 : d / layout.group;
    y[d] *= scales[group * kPanelColumns];
  }
}

}  // namespace colibri::cpu

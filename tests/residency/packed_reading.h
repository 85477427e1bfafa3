// SPDX-License-Identifier: Apache-2.0
//
// Weights of a packed matrix by the formulas of weight_layout.h, written down a second time and
// element by element: what packing is compared with.

#pragma once

#include <cstdint>
#include <cstring>

#include "lib/base/number_formats.h"
#include "lib/base/weight_layout.h"

namespace colibri::test {

// The weight from input `depth` to output `column` as float32; padding may be asked for.
inline float packed_weight(const PackedMatrix &matrix, uint64_t column, uint64_t depth) {
  const WeightLayout &layout = matrix.layout;
  const uint64_t panel = column / 16;
  const uint64_t c = column % 16;
  const auto element = [&](uint64_t width) {
    return matrix.values + ((panel * layout.depth + depth) * 16 + c) * width;
  };
  uint16_t half = 0;
  float value = 0;
  switch (layout.format) {
    case WeightFormat::kF32:
      std::memcpy(&value, element(4), 4);
      return value;
    case WeightFormat::kF16:
      std::memcpy(&half, element(2), 2);
      return f16_to_float(half);
    case WeightFormat::kBF16:
      std::memcpy(&half, element(2), 2);
      return bf16_to_float(half);
    case WeightFormat::kFp8:
      value = fp8_e4m3_to_float(*element(1));
      break;
    case WeightFormat::kInt8: {
      const uint64_t n_lines = (layout.depth + 3) / 4;
      const uint8_t *line = matrix.values + (panel * n_lines + depth / 4) * 64;
      value = static_cast<float>(line[4 * c + depth % 4] - 128);
      break;
    }
    case WeightFormat::kInt4:
    case WeightFormat::kMxFp4: {
      const uint64_t n_lines = (layout.depth + 7) / 8;
      const uint8_t byte = matrix.values[(panel * n_lines + depth / 8) * 64 + 4 * c + depth % 4];
      const int nibble = depth % 8 < 4 ? byte & 15 : byte >> 4;
      value = layout.format == WeightFormat::kInt4
                  ? static_cast<float>(nibble - 8)
                  : fp4_e2m1_to_float(static_cast<uint8_t>(nibble));
      break;
    }
  }
  if (layout.format == WeightFormat::kMxFp4) {
    const uint64_t n_exponents = (uint64_t{layout.depth} + 31) / 32;
    return value * e8m0_to_float(matrix.scales()[(panel * n_exponents + depth / 32) * 16 + c]);
  }
  const uint64_t n_groups =
      layout.has_row_scale ? 1 : (uint64_t{layout.depth} + layout.group - 1) / layout.group;
  const uint64_t group = layout.has_row_scale ? 0 : depth / layout.group;
  float scale;  // stored matrices have float32 scales
  std::memcpy(&scale, matrix.scales() + ((panel * n_groups + group) * 16 + c) * 4, sizeof scale);
  return value * scale;
}

}  // namespace colibri::test

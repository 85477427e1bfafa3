// SPDX-License-Identifier: Apache-2.0
//
// Sizes of the packed form and the packing of stored weights into it. Packing INT4 is on the way
// of every expert that comes from disk, so whole lines are made with 32-bit words; everything else
// is plain.

#include "lib/base/weight_layout.h"

#include <algorithm>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"

namespace colibri {
namespace {

constexpr size_t kLineBytes = 64;
constexpr size_t kInt8LineDepths = 4;
constexpr size_t kInt4LineDepths = 8;
constexpr uint8_t kInt8Zero = 128;
constexpr uint8_t kInt4Zero = 8;
constexpr uint8_t kMxFp4Zero = 0;

size_t plain_element_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 4;
    case WeightFormat::kBF16:
    case WeightFormat::kF16:
      return 2;
    default:
      return 1;
  }
}

// Bytes of one checkpoint row.
size_t source_row_bytes(const WeightLayout &layout) {
  if (layout.format == WeightFormat::kInt4 || layout.format == WeightFormat::kMxFp4) {
    return divide_up(layout.depth, 2);
  }
  return layout.depth * plain_element_bytes(layout.format);
}

struct PanelSource {
  const uint8_t *rows[kPanelColumns];  // the last n_columns .. 15 are not valid
  size_t n_columns;
  size_t depth_bytes;  // from depth to depth of a row; plain formats only
};

size_t tensor_row(const PackingSource &source, size_t column) {
  return source.first_row + column * source.row_step;
}

PanelSource panel_source(const WeightLayout &layout, const PackingSource &source, size_t panel) {
  const size_t first = panel * kPanelColumns;
  const size_t element_bytes = plain_element_bytes(layout.format);
  const size_t row_bytes = source.is_transposed ? element_bytes : source_row_bytes(layout);
  PanelSource result = {};
  result.n_columns = std::min(kPanelColumns, layout.columns - first);
  result.depth_bytes = source.is_transposed ? source.n_tensor_rows * element_bytes : element_bytes;
  for (size_t c = 0; c < result.n_columns; ++c) {
    result.rows[c] = source.values + tensor_row(source, first + c) * row_bytes;
  }
  return result;
}

template <size_t kBytes>
void pack_plain_panel(const PanelSource &source, size_t depth, uint8_t *panel) {
  if (source.n_columns < kPanelColumns) std::memset(panel, 0, depth * kPanelColumns * kBytes);
  for (size_t d = 0; d < depth; ++d) {
    for (size_t c = 0; c < source.n_columns; ++c) {
      std::memcpy(panel + (d * kPanelColumns + c) * kBytes, source.rows[c] + d * source.depth_bytes,
                  kBytes);
    }
  }
}

void pack_int8_panel(const PanelSource &source, size_t depth, uint8_t *panel) {
  const size_t n_lines = divide_up(depth, kInt8LineDepths);
  for (size_t line = 0; line < n_lines; ++line, panel += kLineBytes) {
    const size_t first = line * kInt8LineDepths;
    const size_t n = std::min(kInt8LineDepths, depth - first);
    if (n < kInt8LineDepths || source.n_columns < kPanelColumns) {
      std::memset(panel, kInt8Zero, kLineBytes);
    }
    for (size_t c = 0; c < source.n_columns; ++c) {
      for (size_t j = 0; j < n; ++j) {
        panel[4 * c + j] = static_cast<uint8_t>(source.rows[c][first + j] ^ 0x80u);
      }
    }
  }
}

// Nibbles d0 d1 .. d7 (d0 lowest) become d0 d4 d1 d5 d2 d6 d3 d7: the four bytes of one column in a
// line.
uint32_t interleave_nibbles(uint32_t x) {
  x = (x & 0xFF0000FFu) | ((x & 0x00FF0000u) >> 8) | ((x & 0x0000FF00u) << 8);
  return (x & 0xF00FF00Fu) | ((x & 0x0F000F00u) >> 4) | ((x & 0x00F000F0u) << 4);
}

uint8_t nibble_at(const uint8_t *row, size_t index) {
  return static_cast<uint8_t>(index % 2 == 0 ? row[index / 2] & 15 : row[index / 2] >> 4);
}

// The last line of a depth that is not a multiple of 8.
void pack_nibble_tail(const PanelSource &source, size_t first, size_t n, uint8_t zero,
                      uint8_t *line) {
  for (size_t c = 0; c < source.n_columns; ++c) {
    uint8_t nibbles[kInt4LineDepths];
    for (size_t j = 0; j < kInt4LineDepths; ++j) {
      nibbles[j] = j < n ? nibble_at(source.rows[c], first + j) : zero;
    }
    for (size_t j = 0; j < 4; ++j) {
      line[4 * c + j] = static_cast<uint8_t>(nibbles[j] | (nibbles[4 + j] << 4));
    }
  }
}

// INT4 and MXFP4; `zero` is the nibble of a weight of 0.
void pack_nibble_panel(const PanelSource &source, size_t depth, uint8_t zero, uint8_t *panel) {
  const size_t n_whole = depth / kInt4LineDepths;
  const size_t n_tail = depth % kInt4LineDepths;
  const size_t n_lines = n_whole + (n_tail != 0 ? 1 : 0);
  if (source.n_columns < kPanelColumns) std::memset(panel, zero * 0x11, n_lines * kLineBytes);
  for (size_t line = 0; line < n_whole; ++line) {
    for (size_t c = 0; c < source.n_columns; ++c) {
      const uint8_t *from = source.rows[c] + 4 * line;
      uint8_t *to = panel + line * kLineBytes + 4 * c;
      const uint32_t word = interleave_nibbles(
          static_cast<uint32_t>(from[0]) | (static_cast<uint32_t>(from[1]) << 8) |
          (static_cast<uint32_t>(from[2]) << 16) | (static_cast<uint32_t>(from[3]) << 24));
      to[0] = static_cast<uint8_t>(word);
      to[1] = static_cast<uint8_t>(word >> 8);
      to[2] = static_cast<uint8_t>(word >> 16);
      to[3] = static_cast<uint8_t>(word >> 24);
    }
  }
  if (n_tail != 0) {
    pack_nibble_tail(source, n_whole * kInt4LineDepths, n_tail, zero, panel + n_whole * kLineBytes);
  }
}

void pack_panel(WeightFormat format, const PanelSource &source, size_t depth, uint8_t *panel) {
  switch (format) {
    case WeightFormat::kF32:
      return pack_plain_panel<4>(source, depth, panel);
    case WeightFormat::kBF16:
    case WeightFormat::kF16:
      return pack_plain_panel<2>(source, depth, panel);
    case WeightFormat::kFp8:
      return pack_plain_panel<1>(source, depth, panel);
    case WeightFormat::kInt8:
      return pack_int8_panel(source, depth, panel);
    case WeightFormat::kInt4:
      return pack_nibble_panel(source, depth, kInt4Zero, panel);
    case WeightFormat::kMxFp4:
      return pack_nibble_panel(source, depth, kMxFp4Zero, panel);
  }
}

// Index in the source's scales of one tensor row and scale group.
size_t source_scale_index(const WeightLayout &layout, size_t row, size_t group) {
  const size_t scale_row = layout.format == WeightFormat::kFp8 ? row / kFp8BlockWidth : row;
  return scale_row * layout.scale_groups() + group;
}

// Writes the scales of one panel and group; returns the end.
uint8_t *store_scales(ScaleType type, const float *lanes, uint8_t *destination) {
  if (type == ScaleType::kF32) {
    std::memcpy(destination, lanes, kPanelColumns * sizeof(float));
  } else {
    uint16_t halves[kPanelColumns];
    for (size_t c = 0; c < kPanelColumns; ++c) halves[c] = float_to_bf16(lanes[c]);
    std::memcpy(destination, halves, sizeof halves);
  }
  return destination + kPanelColumns * scale_type_bytes(type);
}

// Exponent bytes of MXFP4.
void pack_scale_bytes(const WeightLayout &layout, const PackingSource &source,
                      uint8_t *destination) {
  const size_t n_groups = layout.scale_groups();
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    for (size_t g = 0; g < n_groups; ++g, destination += kPanelColumns) {
      for (size_t c = 0; c < kPanelColumns; ++c) {
        const size_t column = panel * kPanelColumns + c;
        const bool is_padding = column >= layout.columns;
        const size_t index = tensor_row(source, column) * n_groups + g;
        destination[c] = is_padding ? uint8_t{0} : source.scale_bytes[index];
      }
    }
  }
}

void pack_scales(const WeightLayout &layout, const PackingSource &source, uint8_t *destination) {
  if (layout.format == WeightFormat::kMxFp4) return pack_scale_bytes(layout, source, destination);
  const size_t n_groups = layout.scale_groups();
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    for (size_t g = 0; g < n_groups; ++g) {
      float lanes[kPanelColumns] = {};
      for (size_t c = 0; c < kPanelColumns; ++c) {
        const size_t column = panel * kPanelColumns + c;
        if (column >= layout.columns) break;
        const size_t index = source_scale_index(layout, tensor_row(source, column), g);
        std::memcpy(&lanes[c], reinterpret_cast<const uint8_t *>(source.scales) + 4 * index, 4);
      }
      destination = store_scales(layout.scale_type, lanes, destination);
    }
  }
}

template <typename T>
T load(const uint8_t *array, size_t element) {
  T value;
  std::memcpy(&value, array + element * sizeof(T), sizeof value);
  return value;
}

// Place of a lane's byte at depth d in an integer panel whose lines hold `line_depths` depths.
size_t byte_in_line(size_t d, size_t line_depths, size_t lane) {
  return d / line_depths * kLineBytes + 4 * lane + d % 4;
}

uint8_t load_nibble(const uint8_t *panel, size_t d, size_t lane) {
  const uint8_t byte = panel[byte_in_line(d, kInt4LineDepths, lane)];
  return static_cast<uint8_t>(d % kInt4LineDepths < 4 ? byte & 15 : byte >> 4);
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
      return static_cast<float>(panel[byte_in_line(d, kInt8LineDepths, lane)] - kInt8Zero);
    case WeightFormat::kInt4:
      return static_cast<float>(load_nibble(panel, d, lane) - kInt4Zero);
    case WeightFormat::kMxFp4:
      return fp4_e2m1_to_float(load_nibble(panel, d, lane));
  }
  return 0.0f;
}

}  // namespace

const char *weight_format_name(WeightFormat format) noexcept {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kF16:
      return "f16";
    case WeightFormat::kFp8:
      return "fp8";
    case WeightFormat::kInt8:
      return "int8";
    case WeightFormat::kInt4:
      return "int4";
    case WeightFormat::kMxFp4:
      return "mxfp4";
  }
  return "unknown";
}

const char *scale_type_name(ScaleType type) noexcept {
  if (type == ScaleType::kE8M0) return "e8m0";
  return type == ScaleType::kBF16 ? "bf16" : "f32";
}

WeightLayout quantised_layout(WeightFormat format, uint64_t columns, uint64_t depth,
                              uint32_t group) noexcept {
  return {.format = format,
          .columns = static_cast<uint32_t>(columns),
          .depth = static_cast<uint32_t>(depth),
          .group = group,
          .scale_type = ScaleType::kBF16};
}

size_t WeightLayout::panel_bytes() const noexcept {
  switch (format) {
    case WeightFormat::kInt8:
      return divide_up(depth, kInt8LineDepths) * kLineBytes;
    case WeightFormat::kInt4:
    case WeightFormat::kMxFp4:
      return divide_up(depth, kInt4LineDepths) * kLineBytes;
    default:
      return depth * kPanelColumns * plain_element_bytes(format);
  }
}

size_t WeightLayout::scale_groups() const noexcept {
  if (!has_scales()) return 0;
  return has_row_scale ? 1 : divide_up(depth, group);
}

size_t WeightLayout::scale_offset() const noexcept {
  return divide_up(n_panels() * panel_bytes(), kLineBytes) * kLineBytes;
}

size_t WeightLayout::scale_panel_bytes() const noexcept {
  return scale_groups() * kPanelColumns * scale_type_bytes(scale_type);
}

size_t WeightLayout::total_bytes() const noexcept {
  return scale_offset() + divide_up(n_panels() * scale_panel_bytes(), kLineBytes) * kLineBytes;
}

void pack_matrix(const WeightLayout &layout, const PackingSource &source,
                 uint8_t *destination) noexcept {
  const size_t panel_bytes = layout.panel_bytes();
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    pack_panel(layout.format, panel_source(layout, source, panel), layout.depth,
               destination + panel * panel_bytes);
  }
  const size_t values_bytes = layout.n_panels() * panel_bytes;
  std::memset(destination + values_bytes, 0, layout.scale_offset() - values_bytes);
  if (!layout.has_scales()) return;
  uint8_t *scales = destination + layout.scale_offset();
  pack_scales(layout, source, scales);
  const size_t scales_bytes = layout.n_panels() * layout.scale_panel_bytes();
  std::memset(scales + scales_bytes, 0,
              layout.total_bytes() - layout.scale_offset() - scales_bytes);
}

float unpack_weight(const PackedMatrix &matrix, size_t column, size_t depth) noexcept {
  const WeightLayout &layout = matrix.layout;
  const size_t panel = column / kPanelColumns;
  const size_t lane = column % kPanelColumns;
  const float code =
      decode(layout.format, matrix.values + panel * layout.panel_bytes(), depth, lane);
  if (!layout.has_scales()) return code;
  const size_t group = layout.has_row_scale ? 0 : depth / layout.group;
  const uint8_t *scales = matrix.scales() + panel * layout.scale_panel_bytes();
  const size_t index = group * kPanelColumns + lane;
  switch (layout.scale_type) {
    case ScaleType::kF32:
      return code * load<float>(scales, index);
    case ScaleType::kBF16:
      return code * bf16_to_float(load<uint16_t>(scales, index));
    case ScaleType::kE8M0:
      return code * e8m0_to_float(scales[index]);
  }
  return code;
}

}  // namespace colibri

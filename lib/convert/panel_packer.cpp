// SPDX-License-Identifier: Apache-2.0
//
// A panel is packed as a matrix of its own, so that the layout is written down in one place
// (weight_layout.cpp); then values and scales go where the whole matrix has them.

#include "lib/convert/panel_packer.h"

#include <algorithm>
#include <cstring>

#include "lib/base/checked_math.h"

namespace colibri {
namespace {

size_t code_row_bytes(const WeightLayout &layout) {
  const bool has_nibbles =
      layout.format == WeightFormat::kInt4 || layout.format == WeightFormat::kMxFp4;
  return has_nibbles ? divide_up(layout.depth, 2) : layout.depth;
}

// Four lanes, so that the sums do not wait for each other.
ErrorSums measure_row(const WeightLayout &layout, const float *row, const int8_t *codes,
                      const float *scales) {
  constexpr size_t kLanes = 4;
  double error[kLanes] = {};
  double weight[kLanes] = {};
  for (size_t first = 0, group = 0; first < layout.depth; first += layout.group, ++group) {
    const size_t end = std::min<size_t>(layout.depth, first + layout.group);
    const double scale = static_cast<double>(scales[group]);
    for (size_t i = first; i < end; ++i) {
      const double exact = static_cast<double>(row[i]);
      const double difference = exact - codes[i] * scale;
      error[i % kLanes] += difference * difference;
      weight[i % kLanes] += exact * exact;
    }
  }
  return {(error[0] + error[2]) + (error[1] + error[3]),
          (weight[0] + weight[2]) + (weight[1] + weight[3])};
}

}  // namespace

PanelPlace find_panel(const WeightLayout &layout, uint8_t *matrix, size_t panel) noexcept {
  return {matrix + panel * layout.panel_bytes(),
          matrix + layout.scale_offset() + panel * layout.scale_panel_bytes()};
}

void PanelPacker::prepare(const WeightLayout &layout) {
  layout_ = layout;
  layout_.columns = kPanelColumns;
  if (layout_.is_integer()) {
    codes_.resize(std::max<size_t>(codes_.size(), layout_.depth));
    rows_.resize(std::max(rows_.size(), kPanelColumns * code_row_bytes(layout_)));
    scales_.resize(std::max(scales_.size(), kPanelColumns * layout_.scale_groups()));
  }
  if (packed_.size() < layout_.total_bytes()) packed_ = Buffer(layout_.total_bytes(), "one panel");
}

void PanelPacker::store_codes(size_t row) noexcept {
  uint8_t *bytes = rows_.data() + row * code_row_bytes(layout_);
  if (layout_.format == WeightFormat::kInt8) {
    std::memcpy(bytes, codes_.data(), layout_.depth);
    return;
  }
  const auto nibble = [](int8_t code) { return static_cast<unsigned>(code + 8); };
  for (size_t i = 0; i + 1 < layout_.depth; i += 2) {
    bytes[i / 2] = static_cast<uint8_t>(nibble(codes_[i]) | nibble(codes_[i + 1]) << 4);
  }
  if (layout_.depth % 2 != 0) {
    bytes[layout_.depth / 2] = static_cast<uint8_t>(nibble(codes_[layout_.depth - 1]));
  }
}

ErrorSums PanelPacker::quantise(ScaleSearch search, const float *rows, size_t n,
                                const PanelPlace &place) noexcept {
  ErrorSums sums;
  for (size_t row = 0; row < n; ++row) {
    const float *weights = rows + row * layout_.depth;
    float *scales = scales_.data() + row * layout_.scale_groups();
    quantise_row(layout_, search, {weights, layout_.depth}, codes_.data(), scales);
    sums += measure_row(layout_, weights, codes_.data(), scales);
    store_codes(row);
  }
  pack(rows_.data(), scales_.data(), n, place);
  return sums;
}

void PanelPacker::pack(const uint8_t *rows, const float *scales, size_t n,
                       const PanelPlace &place) noexcept {
  PackingSource source;
  source.values = rows;
  source.scales = scales;
  pack(source, n, place);
}

void PanelPacker::pack(const PackingSource &source, size_t n, const PanelPlace &place) noexcept {
  WeightLayout layout = layout_;
  layout.columns = static_cast<uint32_t>(n);
  pack_matrix(layout, source, packed_.data());
  std::memcpy(place.values, packed_.data(), layout.panel_bytes());
  if (!layout.has_scales()) return;
  std::memcpy(place.scales, packed_.data() + layout.scale_offset(), layout.scale_panel_bytes());
}

}  // namespace colibri

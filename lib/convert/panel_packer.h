// SPDX-License-Identifier: Apache-2.0
//
// One panel of a packed matrix from up to 16 rows of its source: quantised, or packed as stored.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/weight_layout.h"
#include "lib/convert/quantiser.h"

namespace colibri {

// What rounding has cost: sums over weights w that became q.
struct ErrorSums {
  double error = 0;   // (w - q)^2
  double weight = 0;  // w^2

  ErrorSums &operator+=(const ErrorSums &other) noexcept {
    error += other.error;
    weight += other.weight;
    return *this;
  }
};

// Where a panel goes; scales are not used for plain formats.
struct PanelPlace {
  uint8_t *values = nullptr;  // layout.panel_bytes()
  uint8_t *scales = nullptr;  // layout.scale_panel_bytes()
};

// Place of a panel in a matrix that stands at `matrix`.
PanelPlace find_panel(const WeightLayout &layout, uint8_t *matrix, size_t panel) noexcept;

// Scratch and layout of one thread.
class PanelPacker {
 public:
  // For panels of a matrix of this layout from now on. Throws Error(kMemory), std::bad_alloc.
  void prepare(const WeightLayout &layout);

  // n <= kPanelColumns rows of layout.depth finite weights, to INT4 or INT8.
  ErrorSums quantise(ScaleSearch search, const float *rows, size_t n,
                     const PanelPlace &place) noexcept;
  // The first n rows of a source, nothing changed.
  void pack(const PackingSource &source, size_t n, const PanelPlace &place) noexcept;
  // The same of rows that follow one another; all in one FP8 block.
  void pack(const uint8_t *rows, const float *scales, size_t n, const PanelPlace &place) noexcept;

 private:
  void store_codes(size_t row) noexcept;

  WeightLayout layout_;
  std::vector<int8_t> codes_;  // of one row
  std::vector<uint8_t> rows_;  // codes of all rows as a checkpoint has them
  std::vector<float> scales_;  // of all rows
  Buffer packed_;
};

}  // namespace colibri

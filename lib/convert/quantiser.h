// SPDX-License-Identifier: Apache-2.0
//
// From float32 rows to integer codes and scales. Plain float arithmetic in a fixed order, so that
// the same weights give the same bytes on every machine and with any number of threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/weight_layout.h"

namespace colibri {

enum class ScaleSearch : uint8_t {
  // The largest magnitude of a group meets the last code.
  kAbsmax,
  // Of several trial scales the one with the least squared error, each weight counted with the
  // square of its own value, its scale then solved for by least squares (docs/accuracy.md).
  kSearch,
};

// Quantises one row of `depth` weights as layout.format (INT4 or INT8) with groups of layout.group:
//   codes   [depth]: -8..7 (INT4) or -127..127 (INT8)
//   scales  [ceil(depth / group)], finite, exact in layout.scale_type
// A group of zeros has scale 0 and codes 0. All weights are finite (find_non_finite). weight is
// code * scale.
void quantise_row(const WeightLayout &layout, ScaleSearch search, std::span<const float> row,
                  int8_t *codes, float *scales) noexcept;

// Index of the first weight that is NaN or infinite, or row.size().
size_t find_non_finite(std::span<const float> row) noexcept;

}  // namespace colibri

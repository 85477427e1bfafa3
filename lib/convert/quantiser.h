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
  // The largest magnitude of a group meets the last code: -8 for INT4, whichever sign the scale
  // needs for that, 127 for INT8.
  kAbsmax,
  // INT4: of several trial scales the one with the least weighted squared error, the scale then
  // solved for by least squares; a weight counts with its own square plus the mean square of its
  // group (docs/accuracy.md says why). INT8: as kAbsmax, because there a search gains nothing that
  // could be measured.
  kSearch,
};

constexpr uint32_t kLargestQuantiserGroup = 256;

// Quantises one row of `depth` weights as layout.format (INT4 or INT8) with groups of layout.group,
// at most kLargestQuantiserGroup; the last group may be shorter:
//   codes   [depth]: -8..7 (INT4) or -127..127 (INT8)
//   scales  [ceil(depth / group)], finite, exact in layout.scale_type, of either sign
// A group of zeros has scale 0 and codes 0. All weights are finite (float_scan.h). weight is
// code * scale; each code is the nearest to its weight for the scale as stored, ties to even.
void quantise_row(const WeightLayout &layout, ScaleSearch search, std::span<const float> row,
                  int8_t *codes, float *scales) noexcept;

}  // namespace colibri

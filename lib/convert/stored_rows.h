// SPDX-License-Identifier: Apache-2.0
//
// Some rows of a stored matrix: read as they are, and widened or dequantised to float32.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/status.h"
#include "lib/snapshot/weight_source.h"

namespace colibri {

// Memory for rows, used by one thread at a time.
class StoredRows {
 public:
  // Makes room for max_rows rows of a matrix, where there is not enough. Throws std::bad_alloc.
  void reserve(const WeightSource &source, uint64_t max_rows);

  // Reads rows [first, first + n) and their scales, for which room was made; no kPacked. Allocates
  // nothing. A failure (kIo) names the tensor. `source` must live until the rows are used.
  Status read(const TensorIndex &index, const WeightSource &source, uint64_t first,
              uint64_t n) noexcept;

  const uint8_t *values() const noexcept { return values_.data(); }
  // One row of scales per row, or per FP8 block that the rows touch; widened.
  const float *scales() const noexcept { return scales_.data(); }
  uint64_t n_scale_rows() const noexcept { return n_scale_rows_; }

  // What was read last, not of an integer matrix, as float32 [n][columns]: one product per value.
  void widen(float *destination) const noexcept;

 private:
  void widen_fp8(float *destination) const noexcept;

  std::vector<uint8_t> values_;
  std::vector<float> scales_;
  const WeightSource *source_ = nullptr;  // of the last read
  uint64_t first_ = 0, n_ = 0, n_scale_rows_ = 0;
};

}  // namespace colibri

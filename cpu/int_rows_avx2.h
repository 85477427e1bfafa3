// SPDX-License-Identifier: Apache-2.0
//
// What the integer products of AVX2 and of the sets above it share: which rows a tile has and where
// they lie. No intrinsic is in here. For the kernel files of these sets alone: everything is in an
// unnamed namespace, so that what is compiled with a set's flags stays with it.

#pragma once

#include "cpu/kernels.h"

#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

// Rows of one tile.
template <size_t kRows>
struct Rows {
  const int8_t *q[kRows];
  const float *scales[kRows];
  const int32_t *sums[kRows];
  float *y[kRows];
};

// Rows first .. first + n - 1 of a product.
template <size_t kRows>
inline void find_rows(const IntGemmArgs &args, size_t first, size_t n, Rows<kRows> *rows) {
  for (size_t i = 0; i < n; ++i) {
    const size_t r = first + i;
    const size_t in = args.x_rows != nullptr ? static_cast<size_t>(args.x_rows[r]) : r;
    const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
    rows->q[i] = args.q + in * args.q_stride;
    rows->scales[i] = args.scales + in * args.group_stride;
    rows->sums[i] = args.sums + in * args.group_stride;
    rows->y[i] = args.y + out * args.y_stride;
  }
}

// Of the rows from `first` on those of the next tile, with what is left split evenly.
inline size_t rows_of_tile(size_t n_rows, size_t first, size_t tile, size_t n_tiles) {
  return (n_rows - first + n_tiles - tile - 1) / (n_tiles - tile);
}

// The depth behind the group that begins at `first`.
inline size_t group_end(const GemmWeights &weights, size_t first) {
  const size_t left = weights.depth - first;
  return first + (left < weights.group ? left : weights.group);
}

}  // namespace
}  // namespace colibri::cpu

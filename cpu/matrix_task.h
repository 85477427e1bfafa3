// SPDX-License-Identifier: Apache-2.0
//
// One packed matrix times some rows, cut into blocks of panels: what linear and experts share.

#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels.h"
#include "lib/backend/op_args.h"

namespace colibri::cpu {

struct MatrixTask {
  PackedMatrix matrix;
  ActivationRows input;             // n_rows is that of this task
  const int32_t *x_rows = nullptr;  // as in FloatGemmArgs
  float *y = nullptr;
  size_t y_stride = 0;
  const int32_t *y_rows = nullptr;
  bool uses_integers = false;
  const float *bias = nullptr;  // [columns], added behind the product; nullptr: none
};

// Multiply-adds of one panel for all rows.
uint64_t panel_work(const WeightLayout &layout, uint32_t n_rows) noexcept;

// Panels of a block with about `work` multiply-adds, a multiple of `unit_panels`, at least that.
size_t panels_per_block(const WeightLayout &layout, uint32_t n_rows, uint64_t work,
                        size_t unit_panels) noexcept;

// Computes the outputs of panels first_panel .. first_panel + n_panels - 1, cut at the end of the
// matrix.
void multiply_panels(const KernelSet &kernels, const MatrixTask &task, size_t first_panel,
                     size_t n_panels) noexcept;

// As multiply_panels(), but the rows of y begin with the first of these panels.
void multiply_block(const KernelSet &kernels, const MatrixTask &task, size_t first_panel,
                    size_t n_panels) noexcept;

}  // namespace colibri::cpu

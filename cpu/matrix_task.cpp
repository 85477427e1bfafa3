// SPDX-License-Identifier: Apache-2.0
//
// From packed matrices and rows to the argument structs of the kernels.

#include "cpu/matrix_task.h"

#include <algorithm>

namespace colibri::cpu {
namespace {

GemmWeights gemm_weights(const PackedMatrix &matrix) {
  const WeightLayout &layout = matrix.layout;
  const size_t n_groups = layout.scale_groups();
  GemmWeights weights = {};
  weights.values = matrix.values;
  weights.panel_bytes = layout.panel_bytes();
  weights.scales = matrix.scales();
  weights.scale_panel_stride = n_groups * kPanelColumns;
  weights.scale_group_stride = layout.has_row_scale ? 0 : kPanelColumns;
  weights.depth = layout.depth;
  weights.group = layout.group;
  return weights;
}

// Kernels work on several panels at once if there are few rows.
constexpr size_t kPreferredPanels = 8;

}  // namespace

uint64_t panel_work(const MatrixTask &task) noexcept {
  return static_cast<uint64_t>(task.matrix.layout.depth) * kPanelColumns * task.input.n_rows;
}

size_t panels_per_block(const MatrixTask &task, uint64_t work, size_t unit_panels) noexcept {
  const size_t n_panels = std::max<size_t>(task.matrix.layout.n_panels(), 1);
  const uint64_t wanted = work / std::max<uint64_t>(panel_work(task), 1) + 1;
  size_t panels = static_cast<size_t>(std::min<uint64_t>(wanted, n_panels));
  if (panels > kPreferredPanels) panels -= panels % kPreferredPanels;
  return (panels + unit_panels - 1) / unit_panels * unit_panels;
}

void multiply_panels(const KernelSet &kernels, const MatrixTask &task, size_t first_panel,
                     size_t n_panels) noexcept {
  const WeightLayout &layout = task.matrix.layout;
  if (first_panel >= layout.n_panels() || task.input.n_rows == 0) return;
  const size_t n = std::min(n_panels, layout.n_panels() - first_panel);
  if (task.uses_integers) {
    const QuantisedRows &rows = task.input.quantised;
    const IntGemmArgs args = {gemm_weights(task.matrix),
                              first_panel,
                              n,
                              layout.columns,
                              rows.q,
                              rows.q_stride,
                              rows.scales,
                              rows.sums,
                              rows.group_stride,
                              task.x_rows,
                              task.input.n_rows,
                              task.y,
                              task.y_stride,
                              task.y_rows};
    (layout.format == WeightFormat::kInt4 ? kernels.int4_gemm : kernels.int8_gemm)(args);
    return;
  }
  const FloatGemmArgs args = {gemm_weights(task.matrix),
                              first_panel,
                              n,
                              layout.columns,
                              task.input.x,
                              task.input.x_stride,
                              task.x_rows,
                              task.input.n_rows,
                              task.y,
                              task.y_stride,
                              task.y_rows};
  kernels.float_gemm[static_cast<size_t>(layout.format)](args);
}

}  // namespace colibri::cpu

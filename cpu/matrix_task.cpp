// SPDX-License-Identifier: Apache-2.0
//
// From packed matrices and rows to the argument structs of the kernels.

#include "cpu/matrix_task.h"

#include <algorithm>
#include <type_traits>

namespace colibri::cpu {
namespace {

GemmWeights gemm_weights(const PackedMatrix &matrix) {
  const WeightLayout &layout = matrix.layout;
  GemmWeights weights = {};
  weights.values = matrix.values;
  weights.panel_bytes = layout.panel_bytes();
  weights.scales = matrix.scales();
  weights.scale_panel_bytes = layout.scale_panel_bytes();
  weights.scale_group_bytes =
      layout.has_row_scale ? 0 : kPanelColumns * scale_type_bytes(layout.scale_type);
  weights.has_bf16_scales = layout.scale_type == ScaleType::kBF16;
  weights.depth = layout.depth;
  weights.group = layout.group;
  return weights;
}

IntGemmArgs int_gemm_args(const MatrixTask &task, size_t first_panel, size_t n_panels) {
  const QuantisedRows &rows = task.input.quantised;
  return {
      .weights = gemm_weights(task.matrix),
      .first_panel = first_panel,
      .n_panels = n_panels,
      .n_columns = task.matrix.layout.columns,
      .q = rows.q,
      .q_stride = rows.q_stride,
      .scales = rows.scales,
      .sums = rows.sums,
      .group_stride = rows.group_stride,
      .x_rows = task.x_rows,
      .n_rows = task.input.n_rows,
      .y = task.y,
      .y_stride = task.y_stride,
      .y_rows = task.y_rows,
  };
}

FloatGemmArgs float_gemm_args(const MatrixTask &task, size_t first_panel, size_t n_panels) {
  return {
      .weights = gemm_weights(task.matrix),
      .first_panel = first_panel,
      .n_panels = n_panels,
      .n_columns = task.matrix.layout.columns,
      .x = task.input.x,
      .x_stride = task.input.x_stride,
      .x_rows = task.x_rows,
      .n_rows = task.input.n_rows,
      .y = task.y,
      .y_stride = task.y_stride,
      .y_rows = task.y_rows,
  };
}

// Makes the first of the panels the first of the matrix.
template <typename Args>
Args start_at_first_panel(Args args) {
  args.weights.values += args.first_panel * args.weights.panel_bytes;
  if (args.weights.scales != nullptr) {
    args.weights.scales += args.first_panel * args.weights.scale_panel_bytes;
  }
  args.n_columns -= args.first_panel * kPanelColumns;
  args.first_panel = 0;
  return args;
}

// Adds the bias of the panels that were just computed; `args` are those of their kernel.
template <typename Args>
void add_bias(const KernelSet &kernels, const Args &args, const float *bias) {
  const size_t first = args.first_panel * kPanelColumns;
  const size_t n = std::min(args.n_panels * kPanelColumns, args.n_columns - first);
  for (size_t r = 0; r < args.n_rows; ++r) {
    const size_t out = args.y_rows != nullptr ? static_cast<size_t>(args.y_rows[r]) : r;
    kernels.add_row(args.y + out * args.y_stride + first, bias, n);
  }
}

// Order of KernelSet::float_gemm.
static_assert(static_cast<size_t>(WeightFormat::kF32) == 0);
static_assert(static_cast<size_t>(WeightFormat::kBF16) == 1);
static_assert(static_cast<size_t>(WeightFormat::kF16) == 2);
static_assert(static_cast<size_t>(WeightFormat::kFp8) == 3);
static_assert(static_cast<size_t>(WeightFormat::kInt8) == 4);
static_assert(static_cast<size_t>(WeightFormat::kInt4) == 5);
static_assert(static_cast<size_t>(WeightFormat::kMxFp4) == 6);
static_assert(std::extent_v<decltype(KernelSet::float_gemm)> == 7);

IntGemmFn int_gemm(const KernelSet &kernels, WeightFormat format) {
  switch (format) {
    case WeightFormat::kInt4:
      return kernels.int4_gemm;
    case WeightFormat::kMxFp4:
      return kernels.mxfp4_gemm;
    default:
      return kernels.int8_gemm;
  }
}

// Kernels work on several panels at once if there are few rows.
constexpr size_t kPreferredPanels = 8;

// `place` turns the arguments of the kernel into those it is called with.
template <typename Place>
void multiply(const KernelSet &kernels, const MatrixTask &task, size_t first_panel, size_t n_panels,
              Place &&place) {
  const WeightLayout &layout = task.matrix.layout;
  if (first_panel >= layout.n_panels() || task.input.n_rows == 0) return;
  const size_t n = std::min(n_panels, layout.n_panels() - first_panel);
  const float *bias = task.bias != nullptr ? task.bias + first_panel * kPanelColumns : nullptr;
  if (task.uses_integers) {
    const IntGemmArgs args = place(int_gemm_args(task, first_panel, n));
    int_gemm(kernels, layout.format)(args);
    if (bias != nullptr) add_bias(kernels, args, bias);
    return;
  }
  const FloatGemmArgs args = place(float_gemm_args(task, first_panel, n));
  kernels.float_gemm[static_cast<size_t>(layout.format)](args);
  if (bias != nullptr) add_bias(kernels, args, bias);
}

}  // namespace

uint64_t panel_work(const WeightLayout &layout, uint32_t n_rows) noexcept {
  return static_cast<uint64_t>(layout.depth) * kPanelColumns * n_rows;
}

size_t panels_per_block(const WeightLayout &layout, uint32_t n_rows, uint64_t work,
                        size_t unit_panels) noexcept {
  const size_t n_panels = std::max<size_t>(layout.n_panels(), 1);
  const uint64_t wanted = work / std::max<uint64_t>(panel_work(layout, n_rows), 1) + 1;
  size_t panels = static_cast<size_t>(std::min<uint64_t>(wanted, n_panels));
  if (panels > kPreferredPanels) panels -= panels % kPreferredPanels;
  return (panels + unit_panels - 1) / unit_panels * unit_panels;
}

void multiply_panels(const KernelSet &kernels, const MatrixTask &task, size_t first_panel,
                     size_t n_panels) noexcept {
  multiply(kernels, task, first_panel, n_panels, [](const auto &args) { return args; });
}

void multiply_block(const KernelSet &kernels, const MatrixTask &task, size_t first_panel,
                    size_t n_panels) noexcept {
  multiply(kernels, task, first_panel, n_panels,
           [](const auto &args) { return start_at_first_panel(args); });
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of one input: integer ones share one quantisation of the input per group size.

#include <cassert>

#include "lib/model/pass.h"

namespace colibri {
namespace {

// Group of the quantised input that this product needs; 0: it takes floats.
uint32_t needed_group(const Pass &pass, const Product &product) {
  const WeightLayout &layout = product.matrix->layout;
  return pass.uses_integers && layout.is_integer() && !product.needs_float ? layout.group : 0;
}

}  // namespace

QuantisedRows quantise_input(const Pass &pass, const ProductInput &input, uint32_t group) noexcept {
  Workspace &workspace = pass.workspace;
  QuantiseArgs args;
  args.x = input.x;
  args.x_stride = input.x_stride;
  args.n_rows = input.n_rows;
  args.depth = input.depth;
  args.out.q = workspace.quantised;
  args.out.scales = workspace.quantised_scales;
  args.out.sums = workspace.quantised_sums;
  args.out.q_stride = padded_depth(input.depth);
  args.out.group_stride = (input.depth + group - 1) / group;
  args.out.group = group;
  pass.backend.quantise(args);
  return args.out;
}

void run_products(const Pass &pass, const ProductInput &input,
                  std::span<const Product> products) noexcept {
  std::vector<LinearTask> &tasks = pass.workspace.linear_tasks;
  assert(products.size() <= tasks.size());
  ActivationRows rows;
  rows.x = input.x;
  rows.x_stride = input.x_stride;
  rows.n_rows = input.n_rows;
  rows.depth = input.depth;
  // Group sizes that were served; float products run with the first region.
  bool has_served_floats = false;
  uint64_t served_groups = 0;  // bit g / 16, group sizes are multiples of 16 up to 256
  for (const Product &first : products) {
    const uint32_t group = needed_group(pass, first);
    const uint64_t bit = uint64_t{1} << (group / 16);
    if (group == 0 ? has_served_floats : (served_groups & bit) != 0) continue;
    if (group > 0) {
      rows.quantised = quantise_input(pass, input, group);
      served_groups |= bit;
    }
    size_t n_tasks = 0;
    for (const Product &product : products) {
      const uint32_t needs = needed_group(pass, product);
      if (needs != group && !(needs == 0 && !has_served_floats)) continue;
      LinearTask &task = tasks[n_tasks++];
      task.matrix = *product.matrix;
      task.input = rows;
      task.y = product.y;
      task.y_stride = product.y_stride;
      task.uses_integers = needs > 0;
      task.bias = product.bias;
      pass.workspace.counters.add_dense(task.matrix.layout, input.n_rows, task.uses_integers);
    }
    has_served_floats = true;
    pass.backend.linear({tasks.data(), n_tasks}, *pass.workspace.scratch);
  }
}

void run_head_products(const Pass &pass, const HeadProducts &products) noexcept {
  Workspace &workspace = pass.workspace;
  const WeightLayout &layout = products.matrices[0].layout;
  const uint32_t n_rows = pass.n_rows();
  const size_t n_heads = products.matrices.size();
  const bool is_integer = pass.uses_integers && layout.is_integer();
  QuantisedRows all;
  if (is_integer) {
    // Heads lie side by side in a row, so that the rows of all heads are quantised as n_rows * H
    // short rows.
    assert(products.x_row_stride == n_heads * products.x_head_stride);
    const auto n_short_rows = static_cast<uint32_t>(n_rows * n_heads);
    all = quantise_input(pass, {products.x, products.x_head_stride, n_short_rows, layout.depth},
                         layout.group);
  }
  for (size_t head = 0; head < n_heads; ++head) {
    LinearTask &task = workspace.linear_tasks[head];
    task.matrix = products.matrices[head];
    task.input.x = products.x + head * products.x_head_stride;
    task.input.x_stride = products.x_row_stride;
    task.input.n_rows = n_rows;
    task.input.depth = layout.depth;
    task.input.quantised = all;
    if (is_integer) {
      QuantisedRows &mine = task.input.quantised;
      mine.q += head * all.q_stride;
      mine.scales += head * all.group_stride;
      mine.sums += head * all.group_stride;
      mine.q_stride *= n_heads;
      mine.group_stride *= n_heads;
    }
    task.y = products.y + head * products.y_head_stride;
    task.y_stride = products.y_row_stride;
    task.uses_integers = is_integer;
    task.bias = nullptr;
    workspace.counters.add_dense(layout, n_rows, is_integer);
  }
  pass.backend.linear({workspace.linear_tasks.data(), n_heads}, *workspace.scratch);
}

}  // namespace colibri

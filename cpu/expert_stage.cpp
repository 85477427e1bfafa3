// SPDX-License-Identifier: Apache-2.0
//
// First region: gate and up of a block of columns, silu, and the quantisation of that block. Blocks
// end where groups of the down matrix end, so a block is quantised without its neighbours. Second
// region: down, into the rows of `out`. Intermediate rows are indexed as the output rows are, so
// rows of different experts never meet.

#include "cpu/expert_stage.h"

#include <algorithm>
#include <numeric>

#include "cpu/matrix_task.h"

namespace colibri::cpu {
namespace {

// What both regions need.
struct Stage {
  const KernelSet *kernels;
  const ExpertsArgs *args;
  float *gate_rows;
  float *up_rows;
  size_t stride;
  QuantisedRows quantised;  // group not set: it is that of each expert's down matrix
};

// Group of the intermediate of one expert; 0 if its down matrix takes floats.
uint32_t down_group(const Stage &stage, const ExpertTask &expert) {
  const WeightLayout &layout = expert.weights.down.layout;
  return stage.args->uses_integers && layout.is_integer() ? layout.group : 0;
}

MatrixTask input_task(const Stage &stage, const ExpertTask &expert, const PackedMatrix &matrix,
                      float *y) {
  MatrixTask task;
  task.matrix = matrix;
  task.input = stage.args->input;
  task.input.n_rows = expert.n_rows;
  task.x_rows = expert.rows;
  task.y = y;
  task.y_stride = stage.stride;
  task.y_rows = expert.outputs;
  task.uses_integers = stage.args->uses_integers && matrix.layout.is_integer();
  return task;
}

MatrixTask down_task(const Stage &stage, const ExpertTask &expert) {
  MatrixTask task;
  task.matrix = expert.weights.down;
  task.input.x = stage.gate_rows;
  task.input.x_stride = stage.stride;
  task.input.n_rows = expert.n_rows;
  task.input.depth = task.matrix.layout.depth;
  task.input.quantised = stage.quantised;
  task.input.quantised.group = down_group(stage, expert);
  task.x_rows = expert.outputs;
  task.y = stage.args->out;
  task.y_stride = stage.args->out_stride;
  task.y_rows = expert.outputs;
  task.uses_integers = task.input.quantised.group != 0;
  return task;
}

// silu(gate) * up in place of gate, columns first .. first + n - 1; then their quantisation.
void activate_block(const Stage &stage, const ExpertTask &expert, size_t first, size_t n) {
  const QuantisedRows &rows = stage.quantised;
  const uint32_t group = down_group(stage, expert);
  for (uint32_t i = 0; i < expert.n_rows; ++i) {
    const size_t row = static_cast<size_t>(expert.outputs[i]);
    float *gate = stage.gate_rows + row * stage.stride + first;
    stage.kernels->silu_row(gate, stage.up_rows + row * stage.stride + first, n, gate);
    if (group == 0) continue;
    const size_t at = row * rows.group_stride + first / group;
    stage.kernels->quantise_row(gate, n, group, rows.q + row * rows.q_stride + first,
                                rows.scales + at, rows.sums + at);
  }
}

void run_input_block(const Stage &stage, const ExpertTask &expert, size_t first_panel,
                     size_t n_panels) {
  const size_t width = expert.weights.gate.layout.columns;
  const size_t first = first_panel * kPanelColumns;
  if (first >= width || expert.n_rows == 0) return;
  multiply_panels(*stage.kernels, input_task(stage, expert, expert.weights.gate, stage.gate_rows),
                  first_panel, n_panels);
  multiply_panels(*stage.kernels, input_task(stage, expert, expert.weights.up, stage.up_rows),
                  first_panel, n_panels);
  activate_block(stage, expert, first, std::min(n_panels * kPanelColumns, width - first));
}

}  // namespace

void run_experts(const KernelSet &kernels, const TaskRunner &runner, const ExpertsArgs &args,
                 CpuScratch &scratch) noexcept {
  if (args.tasks.empty()) return;
  const ExpertView &shape = args.tasks[0].weights;
  const Stage stage = {&kernels,
                       &args,
                       scratch.gate_rows(),
                       scratch.up_rows(),
                       scratch.expert_stride(),
                       scratch.quantised_rows(0)};

  uint64_t n_rows = 0;
  size_t unit = 1;  // panels: blocks end where the groups of every expert end
  for (const ExpertTask &expert : args.tasks) {
    n_rows += expert.n_rows;
    const size_t group = down_group(stage, expert);
    if (group != 0) unit = std::lcm(unit, group / kPanelColumns);
  }
  const size_t n_experts = args.tasks.size();
  // Block sizes are those of an expert with the average number of rows.
  const auto average_rows = static_cast<uint32_t>((n_rows + n_experts - 1) / n_experts);

  const WeightLayout &gate = shape.gate.layout;
  const uint64_t gate_work = 2 * panel_work(gate, average_rows) * gate.n_panels() * n_experts;
  const size_t gate_block =
      panels_per_block(gate, average_rows, runner.work_per_task(gate_work) / 2, unit);
  const size_t gate_blocks = (gate.n_panels() + gate_block - 1) / gate_block;
  runner.run(n_experts * gate_blocks, gate_work, [&](size_t task, uint32_t) {
    run_input_block(stage, args.tasks[task / gate_blocks], task % gate_blocks * gate_block,
                    gate_block);
  });

  const WeightLayout &down = shape.down.layout;
  const uint64_t down_work = panel_work(down, average_rows) * down.n_panels() * n_experts;
  const size_t down_block =
      panels_per_block(down, average_rows, runner.work_per_task(down_work), 1);
  const size_t down_blocks = (down.n_panels() + down_block - 1) / down_block;
  runner.run(n_experts * down_blocks, down_work, [&](size_t task, uint32_t) {
    multiply_panels(kernels, down_task(stage, args.tasks[task / down_blocks]),
                    task % down_blocks * down_block, down_block);
  });
}

}  // namespace colibri::cpu

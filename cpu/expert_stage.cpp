// SPDX-License-Identifier: Apache-2.0
//
// First region: gate and up of a block of columns, silu, and the quantisation of that block. Blocks
// end where groups of the down matrix end, so a block is quantised without its neighbours. Second
// region: down, into the rows of `out`. Intermediate rows are indexed as the output rows are, so
// rows of different experts never meet.
//
// What a product gives is first gathered in floats of the worker, which stay in its cache, and goes
// on from there a row at a time. Written straight to where it belongs, it would be 64 bytes for each
// row and panel, all over a memory that no cache holds: with 512 rows, 8 of 128 experts for each,
// widths 2048 and 768 and two threads of Zen 4, gate and up ran at 320 instead of 365 GMAC/s and
// down at 260 instead of 320, of the 380 that the kernel reaches in cache.

#include "cpu/expert_stage.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "cpu/matrix_task.h"

namespace colibri::cpu {
namespace {

// The results of down for so few rows are written to `out` as they come, since gathering them costs
// more than it saves (5 % with 8 rows).
constexpr uint32_t kFewRows = 8;

// What both regions need.
struct Stage {
  const KernelSet *kernels;
  const ExpertsArgs *args;
  CpuScratch *scratch;
  QuantisedRows quantised;  // group not set: it is that of each expert's down matrix
};

struct PanelRange {
  size_t first;
  size_t n;
};

// Most rows and panels of a part, whose results fit into the floats of a worker.
struct PartSize {
  size_t n_rows;
  size_t n_panels;
};

// n_results floats for each row and column; panels in multiples of `unit`. Rows are cut only where
// not even one unit of panels has room for all of them.
PartSize choose_part(uint32_t n_rows, size_t n_results, size_t unit) {
  const size_t room = CpuScratch::kBlockFloats / kPanelColumns / n_results;
  assert(n_rows > 0 && unit <= room);
  const size_t rows = std::min<size_t>(n_rows, room / unit);
  return {rows, room / rows / unit * unit};
}

// body(part, panels) for every part of the expert's rows and of the panels, which are cut at the
// end of the matrix.
template <typename Body>
void for_each_part(const ExpertTask &expert, PanelRange panels, const WeightLayout &matrix,
                   PartSize most, Body &&body) {
  const size_t end = std::min(panels.first + panels.n, matrix.n_panels());
  for (size_t first = panels.first; first < end; first += most.n_panels) {
    for (size_t row = 0; row < expert.n_rows; row += most.n_rows) {
      ExpertTask part = expert;
      part.rows += row;
      part.outputs += row;
      part.n_rows = static_cast<uint32_t>(std::min(most.n_rows, expert.n_rows - row));
      body(part, PanelRange{first, std::min(most.n_panels, end - first)});
    }
  }
}

// Group of the intermediate of one expert; 0 if its down matrix takes floats.
uint32_t down_group(const Stage &stage, const ExpertTask &expert) {
  const WeightLayout &layout = expert.weights.down.layout;
  return stage.args->uses_integers && layout.is_integer() ? layout.group : 0;
}

// The part's rows times one matrix, into consecutive rows at y.
MatrixTask input_task(const Stage &stage, const ExpertTask &part, const PackedMatrix &matrix,
                      const float *bias, float *y, size_t y_stride) {
  MatrixTask task;
  task.matrix = matrix;
  task.bias = bias;
  task.input = stage.args->input;
  task.input.n_rows = part.n_rows;
  task.x_rows = part.rows;
  task.y = y;
  task.y_stride = y_stride;
  task.uses_integers = stage.args->uses_integers && matrix.layout.is_integer();
  return task;
}

// Into the rows of `out`.
MatrixTask down_task(const Stage &stage, const ExpertTask &part) {
  MatrixTask task;
  task.matrix = part.weights.down;
  task.bias = part.weights.down_bias;
  task.input.x = stage.scratch->intermediate_rows();
  task.input.x_stride = stage.scratch->expert_stride();
  task.input.n_rows = part.n_rows;
  task.input.depth = task.matrix.layout.depth;
  task.input.quantised = stage.quantised;
  task.input.quantised.group = down_group(stage, part);
  task.x_rows = part.outputs;
  task.y = stage.args->out;
  task.y_stride = stage.args->out_stride;
  task.y_rows = part.outputs;
  task.uses_integers = task.input.quantised.group != 0;
  return task;
}

void activate_row(const Stage &stage, const float *gate, const float *up, size_t n, float *y) {
  const Activation &activation = stage.args->activation;
  if (activation.kind == ActivationKind::kSilu) return stage.kernels->silu_row(gate, up, n, y);
  stage.kernels->clamped_swish_row({gate, up, n, activation.limit, activation.alpha, y});
}

// Joins n columns of gate and up from `first` on, into the intermediate rows: quantised, or as
// floats if that is what the down matrix takes.
void activate_part(const Stage &stage, const ExpertTask &part, float *gate, const float *up,
                   size_t stride, size_t first, size_t n) {
  const QuantisedRows &rows = stage.quantised;
  const uint32_t group = down_group(stage, part);
  for (uint32_t i = 0; i < part.n_rows; ++i, gate += stride, up += stride) {
    const size_t row = static_cast<size_t>(part.outputs[i]);
    if (group == 0) {
      float *x = stage.scratch->intermediate_rows() + row * stage.scratch->expert_stride();
      activate_row(stage, gate, up, n, x + first);
      continue;
    }
    activate_row(stage, gate, up, n, gate);
    const size_t at = row * rows.group_stride + first / group;
    stage.kernels->quantise_row(gate, n, group, rows.q + row * rows.q_stride + first,
                                rows.scales + at, rows.sums + at);
  }
}

void run_input_part(const Stage &stage, const ExpertTask &part, PanelRange panels, float *gate) {
  const size_t stride = panels.n * kPanelColumns;
  float *up = gate + part.n_rows * stride;
  const ExpertView &weights = part.weights;
  multiply_block(*stage.kernels,
                 input_task(stage, part, weights.gate, weights.gate_bias, gate, stride),
                 panels.first, panels.n);
  multiply_block(*stage.kernels, input_task(stage, part, weights.up, weights.up_bias, up, stride),
                 panels.first, panels.n);
  const size_t first = panels.first * kPanelColumns;
  const size_t n = std::min<size_t>(stride, part.weights.gate.layout.columns - first);
  activate_part(stage, part, gate, up, stride, first, n);
}

void run_input_block(const Stage &stage, const ExpertTask &expert, PanelRange panels,
                     uint32_t worker) {
  if (expert.n_rows == 0) return;
  const size_t unit = std::max<size_t>(down_group(stage, expert) / kPanelColumns, 1);
  for_each_part(expert, panels, expert.weights.gate.layout, choose_part(expert.n_rows, 2, unit),
                [&](const ExpertTask &part, PanelRange some) {
                  run_input_part(stage, part, some, stage.scratch->worker_floats(worker));
                });
}

void run_down_part(const Stage &stage, const ExpertTask &part, PanelRange panels, float *block) {
  MatrixTask task = down_task(stage, part);
  task.y = block;
  task.y_stride = panels.n * kPanelColumns;
  task.y_rows = nullptr;
  multiply_block(*stage.kernels, task, panels.first, panels.n);
  const size_t first = panels.first * kPanelColumns;
  const size_t n = std::min<size_t>(task.y_stride, task.matrix.layout.columns - first);
  float *out = stage.args->out + first;
  for (uint32_t i = 0; i < part.n_rows; ++i) {
    const size_t row = static_cast<size_t>(part.outputs[i]);
    std::copy_n(block + i * task.y_stride, n, out + row * stage.args->out_stride);
  }
}

void run_down_block(const Stage &stage, const ExpertTask &expert, PanelRange panels,
                    uint32_t worker) {
  if (expert.n_rows <= kFewRows) {
    multiply_panels(*stage.kernels, down_task(stage, expert), panels.first, panels.n);
    return;
  }
  for_each_part(expert, panels, expert.weights.down.layout, choose_part(expert.n_rows, 1, 1),
                [&](const ExpertTask &part, PanelRange some) {
                  run_down_part(stage, part, some, stage.scratch->worker_floats(worker));
                });
}

}  // namespace

void run_experts(const KernelSet &kernels, const TaskRunner &runner, const ExpertsArgs &args,
                 CpuScratch &scratch) noexcept {
  if (args.tasks.empty()) return;
  const ExpertView &shape = args.tasks[0].weights;
  const Stage stage = {&kernels, &args, &scratch, scratch.quantised_rows(0)};

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
  runner.run(n_experts * gate_blocks, gate_work, [&](size_t task, uint32_t worker) {
    run_input_block(stage, args.tasks[task / gate_blocks],
                    {task % gate_blocks * gate_block, gate_block}, worker);
  });

  const WeightLayout &down = shape.down.layout;
  const uint64_t down_work = panel_work(down, average_rows) * down.n_panels() * n_experts;
  const size_t down_block =
      panels_per_block(down, average_rows, runner.work_per_task(down_work), 1);
  const size_t down_blocks = (down.n_panels() + down_block - 1) / down_block;
  runner.run(n_experts * down_blocks, down_work, [&](size_t task, uint32_t worker) {
    run_down_block(stage, args.tasks[task / down_blocks],
                   {task % down_blocks * down_block, down_block}, worker);
  });
}

}  // namespace colibri::cpu

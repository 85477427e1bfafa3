// SPDX-License-Identifier: Apache-2.0
//
// How each operation is cut into tasks: rows; (matrix, block of panels); (row, keys). Experts and
// attention have a stage of their own.
// The arithmetic is in the kernels, the cut never touches a reduction.

#include "cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "cpu/attention_stage.h"
#include "cpu/column_reader.h"
#include "cpu/cpu_scratch.h"
#include "cpu/expert_stage.h"
#include "cpu/kernel_registry.h"
#include "cpu/matrix_task.h"
#include "cpu/route_row.h"
#include "cpu/select_positions.h"
#include "cpu/task_runner.h"

namespace colibri::cpu {
namespace {

// Keys of one index_scores task, a multiple of 16.
constexpr size_t kIndexBlock = 512;
// An exponential in multiply-adds.
constexpr uint64_t kExpWork = 12;

MatrixTask matrix_task(const LinearTask &task) {
  MatrixTask result;
  result.matrix = task.matrix;
  result.input = task.input;
  result.y = task.y;
  result.y_stride = task.y_stride;
  result.uses_integers = task.uses_integers;
  result.bias = task.bias;
  return result;
}

uint64_t linear_work(const LinearTask &task) {
  const WeightLayout &layout = task.matrix.layout;
  return panel_work(layout, task.input.n_rows) * layout.n_panels();
}

// How one product is cut: blocks of `panels` panels, the last one perhaps shorter.
struct Cut {
  size_t panels, n_blocks;
};
Cut cut_into_blocks(const LinearTask &task, uint64_t work) {
  const WeightLayout &layout = task.matrix.layout;
  const size_t panels = panels_per_block(layout, task.input.n_rows, work, 1);
  return {panels, (layout.n_panels() + panels - 1) / panels};
}

void rotate_pairs(const RopeArgs &args, size_t row, float *x) {
  const size_t half = args.width / 2;
  const float *cosines = args.cosines + row * half;
  const float *sines = args.sines + row * half;
  const size_t step = args.is_interleaved ? 2 : 1;
  float *second = args.is_interleaved ? x + 1 : x + half;
  for (size_t i = 0; i < half; ++i) {
    const float a = x[i * step];
    const float b = second[i * step];
    x[i * step] = a * cosines[i] - b * sines[i];
    second[i * step] = b * cosines[i] + a * sines[i];
  }
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(ThreadPool &threads, const KernelRow &row) noexcept
      : runner_(threads), name_(row.name), kernels_(row.set) {}

  const char *kernel_set_name() const noexcept override { return name_; }
  uint32_t n_threads() const noexcept override { return runner_.n_threads(); }

  uint64_t scratch_bytes(const ScratchShape &shape) const noexcept override {
    return CpuScratch::needed_bytes(shape, n_threads());
  }
  std::unique_ptr<Scratch> make_scratch(const ScratchShape &shape) override {
    return std::make_unique<CpuScratch>(shape, n_threads());
  }

  void embed(const EmbedArgs &args) noexcept override;
  void rms_norm(const NormArgs &args) noexcept override;
  void layer_norm(const NormArgs &args) noexcept override;
  void quantise(const QuantiseArgs &args) noexcept override;
  void linear(std::span<const LinearTask> tasks, Scratch &scratch) noexcept override;
  void rope(const RopeArgs &args) noexcept override;
  void store(const StoreArgs &args) noexcept override;
  void attention(const AttentionArgs &args, Scratch &scratch) noexcept override;
  void index_scores(const IndexScoresArgs &args, Scratch &scratch) noexcept override;
  void select(const SelectArgs &args, Scratch &scratch) noexcept override;
  void route(const RouteArgs &args, Scratch &scratch) noexcept override;
  void experts(const ExpertsArgs &args, Scratch &scratch) noexcept override;
  void combine(const CombineArgs &args) noexcept override;
  void silu(const SiluArgs &args) noexcept override;
  void add(const AddArgs &args) noexcept override;

 private:
  TaskRunner runner_;
  const char *name_;
  const KernelSet *kernels_;
};

void CpuBackend::embed(const EmbedArgs &args) noexcept {
  runner_.run_rows(args.n_rows, 4ull * args.table.layout.depth, [&](size_t row, uint32_t) {
    read_column(args.table, static_cast<size_t>(args.ids[row]), args.y + row * args.y_stride);
  });
}

void CpuBackend::rms_norm(const NormArgs &args) noexcept {
  runner_.run_rows(args.n_rows, args.width, [&](size_t row, uint32_t) {
    kernels_->rms_norm_row(args.x + row * args.x_stride, args.weight, args.eps, args.width,
                           args.y + row * args.y_stride);
  });
}

void CpuBackend::layer_norm(const NormArgs &args) noexcept {
  runner_.run_rows(args.n_rows, args.width, [&](size_t row, uint32_t) {
    kernels_->layer_norm_row(args.x + row * args.x_stride, args.weight, args.bias, args.eps,
                             args.width, args.y + row * args.y_stride);
  });
}

void CpuBackend::quantise(const QuantiseArgs &args) noexcept {
  const QuantisedRows &out = args.out;
  runner_.run_rows(args.n_rows, args.depth, [&](size_t row, uint32_t) {
    kernels_->quantise_row(args.x + row * args.x_stride, args.depth, out.group,
                           out.q + row * out.q_stride, out.scales + row * out.group_stride,
                           out.sums + row * out.group_stride);
  });
}

void CpuBackend::linear(std::span<const LinearTask> tasks, Scratch &) noexcept {
  if (tasks.empty()) return;
  uint64_t work = 0;
  bool are_alike = true;  // one matrix per head: the task of a block is a quotient then
  for (const LinearTask &task : tasks) {
    work += linear_work(task);
    are_alike = are_alike && task.matrix.layout == tasks[0].matrix.layout &&
                task.input.n_rows == tasks[0].input.n_rows;
  }
  const uint64_t task_work = runner_.work_per_task(work);
  const auto run_block = [&](const LinearTask &task, const Cut &cut, size_t block) {
    multiply_panels(*kernels_, matrix_task(task), block * cut.panels, cut.panels);
  };
  if (are_alike) {
    const Cut cut = cut_into_blocks(tasks[0], task_work);
    runner_.run(tasks.size() * cut.n_blocks, work, [&](size_t index, uint32_t) {
      run_block(tasks[index / cut.n_blocks], cut, index % cut.n_blocks);
    });
    return;
  }
  size_t n_blocks = 0;
  for (const LinearTask &task : tasks) n_blocks += cut_into_blocks(task, task_work).n_blocks;
  runner_.run(n_blocks, work, [&](size_t index, uint32_t) {
    for (const LinearTask &task : tasks) {
      const Cut cut = cut_into_blocks(task, task_work);
      if (index < cut.n_blocks) return run_block(task, cut, index);
      index -= cut.n_blocks;
    }
  });
}

void CpuBackend::rope(const RopeArgs &args) noexcept {
  const uint64_t work = 2ull * args.n_heads * args.width;
  runner_.run_rows(args.n_rows, work, [&](size_t row, uint32_t) {
    for (size_t head = 0; head < args.n_heads; ++head) {
      rotate_pairs(args, row, args.x + row * args.row_stride + head * args.head_stride);
    }
  });
}

void CpuBackend::store(const StoreArgs &args) noexcept {
  const size_t piece_bytes = args.width * kv_type_bytes(args.type);
  const size_t head_bytes = args.head_stride * kv_type_bytes(args.type);
  const RoundRowFn round = args.type == KvType::kBF16 ? kernels_->bf16_row : kernels_->f16_row;
  const uint64_t work = static_cast<uint64_t>(args.n_heads) * args.width;
  runner_.run_rows(args.n_rows, work, [&](size_t row, uint32_t) {
    for (size_t head = 0; head < args.n_heads; ++head) {
      const float *x = args.x + row * args.x_stride + head * args.width;
      uint8_t *to = static_cast<uint8_t *>(args.destinations[row]) + head * head_bytes;
      if (args.type == KvType::kF32) {
        std::memcpy(to, x, piece_bytes);
      } else {
        round(x, args.width, reinterpret_cast<uint16_t *>(to));
      }
    }
  });
}

void CpuBackend::attention(const AttentionArgs &args, Scratch &scratch) noexcept {
  CpuScratch &memory = static_cast<CpuScratch &>(scratch);
  const AttentionCut cut = choose_attention_cut(args, runner_, memory.partial_capacity());
  run_attention(*kernels_, runner_, args, cut, memory);
}

void CpuBackend::index_scores(const IndexScoresArgs &args, Scratch &) noexcept {
  size_t most_keys = 0;
  uint64_t n_keys = 0;
  for (const IndexRow &row : args.rows) {
    most_keys = std::max<size_t>(most_keys, row.n_keys);
    n_keys += row.n_keys;
  }
  const size_t n_blocks = (most_keys + kIndexBlock - 1) / kIndexBlock;
  const uint64_t work = n_keys * args.n_heads * args.width;
  runner_.run(args.rows.size() * n_blocks, work, [&](size_t task, uint32_t) {
    const size_t index = task / n_blocks;
    const size_t first = task % n_blocks * kIndexBlock;
    const IndexRow &row = args.rows[index];
    if (first >= row.n_keys) return;
    IndexScoresKernelArgs kernel_args = {};
    kernel_args.queries = args.queries + index * args.n_heads * args.width;
    kernel_args.weights = args.weights + index * args.weights_stride;
    kernel_args.n_heads = args.n_heads;
    kernel_args.width = args.width;
    kernel_args.key_panels = row.key_panels;
    kernel_args.first_key = first;
    kernel_args.n_keys = std::min(kIndexBlock, row.n_keys - first);
    kernel_args.scale = args.scale;
    kernel_args.scores = args.scores + index * args.score_stride;
    kernels_->index_scores(kernel_args);
  });
}

void CpuBackend::select(const SelectArgs &args, Scratch &) noexcept {
  uint64_t n_keys = 0;
  for (const IndexRow &row : args.rows) n_keys += row.n_keys > args.top_k ? row.n_keys : 0;
  runner_.run(args.rows.size(), 4 * n_keys, [&](size_t row, uint32_t) {
    if (args.top_k == 0 || args.rows[row].n_keys <= args.top_k) return;
    select_positions(args.scores + row * args.score_stride, args.rows[row].n_keys, args.top_k,
                     args.positions + row * args.top_k);
  });
}

void CpuBackend::route(const RouteArgs &args, Scratch &scratch) noexcept {
  CpuScratch &memory = static_cast<CpuScratch &>(scratch);
  const uint64_t work = static_cast<uint64_t>(args.n_experts) * (kExpWork + args.top_k);
  runner_.run_rows(args.n_rows, work, [&](size_t row, uint32_t worker) {
    float *floats = memory.worker_floats(worker);
    const float *logits = args.logits + row * args.n_experts;
    switch (args.kind) {
      case RouterKind::kSigmoid:
        kernels_->sigmoid_row(logits, args.n_experts, floats);
        break;
      case RouterKind::kSoftmax:
        kernels_->softmax_row(logits, args.n_experts, floats);
        break;
      case RouterKind::kSoftmaxOfChosen:
        std::copy_n(logits, args.n_experts, floats);
        break;
    }
    route_row(args, row, floats);
  });
}

void CpuBackend::experts(const ExpertsArgs &args, Scratch &scratch) noexcept {
  run_experts(*kernels_, runner_, args, static_cast<CpuScratch &>(scratch));
}

void CpuBackend::combine(const CombineArgs &args) noexcept {
  const uint64_t work = static_cast<uint64_t>(args.width) * (args.top_k + 1);
  runner_.run_rows(args.n_rows, work, [&](size_t row, uint32_t) {
    CombineRowArgs kernel_args = {};
    kernel_args.x = args.x + row * args.x_stride;
    kernel_args.out = args.expert_out + row * args.top_k * args.width;
    kernel_args.out_stride = args.width;
    kernel_args.weights = args.weights + row * args.top_k;
    kernel_args.top_k = args.top_k;
    kernel_args.shared = args.shared != nullptr ? args.shared + row * args.shared_stride : nullptr;
    float shared_weight = 1.0f;
    if (args.shared_logits != nullptr) {
      kernels_->sigmoid_row(args.shared_logits + row, 1, &shared_weight);
      kernel_args.shared_weight = &shared_weight;
    }
    kernel_args.n = args.width;
    kernels_->combine_row(kernel_args);
  });
}

void CpuBackend::silu(const SiluArgs &args) noexcept {
  runner_.run_rows(args.n_rows, kExpWork * args.width, [&](size_t row, uint32_t) {
    const size_t offset = row * args.stride;
    kernels_->silu_row(args.gate + offset, args.up + offset, args.width, args.y + offset);
  });
}

void CpuBackend::add(const AddArgs &args) noexcept {
  runner_.run_rows(args.n_rows, args.width, [&](size_t row, uint32_t) {
    kernels_->add_row(args.x + row * args.x_stride, args.y + row * args.y_stride, args.width);
  });
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(ThreadPool &threads, std::string_view kernel_set) {
  return std::make_unique<CpuBackend>(threads, choose_kernel_row(kernel_set));
}

}  // namespace colibri::cpu

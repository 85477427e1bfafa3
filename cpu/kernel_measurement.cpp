// SPDX-License-Identifier: Apache-2.0
//
// Random matrices that fill the memory asked for, rows that all of them are multiplied with, and
// passes over them. The time of a pass is that of its matrices: its tasks are taken from one
// counter, so that threads start once and meet once.

#include "cpu/kernel_measurement.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "cpu/kernel_registry.h"
#include "cpu/matrix_task.h"
#include "cpu/roofline.h"
#include "cpu/thread_team.h"
#include "lib/base/buffer.h"
#include "lib/base/checked_math.h"
#include "lib/base/random_stream.h"

namespace colibri::cpu {
namespace {

// A pass takes as many matrices as take about this long; the next one goes on where it ended, so
// that what is read was never in a cache. The best of short passes is what the machine can do while
// its neighbours are quiet, and the roof is found the same way.
constexpr double kPassSeconds = 0.015;
constexpr uint64_t kReadParts = 4;  // of the memory, one a pass
constexpr double kCacheSeconds = 0.02;
constexpr size_t kTries = 4;
constexpr uint64_t kPartAlignment = 4096;
constexpr uint32_t kCacheRows = 32;
// One matrix and its rows: a quarter of the second-level cache of a server.
constexpr uint32_t kCacheDepth = 1024;
constexpr size_t kCacheBytes = 128 * 1024;
constexpr size_t kBlockPanels = 8;

// Random bits under `mask`, those of `fixed` beside them.
void fill_words(RandomStream &random, uint64_t mask, uint64_t fixed, uint8_t *at, size_t n_bytes) {
  for (size_t i = 0; i + sizeof(uint64_t) <= n_bytes; i += sizeof(uint64_t)) {
    const uint64_t word = (random.next() & mask) | fixed;
    std::memcpy(at + i, &word, sizeof word);
  }
}

// Any codes; BF16 values and scales of about 2^-7, so that nothing is subnormal or infinite.
void fill_matrix(const WeightLayout &layout, uint64_t seed, uint8_t *at) {
  constexpr uint64_t kSmall = 0x3C003C003C003C00u;
  RandomStream random{seed};
  const uint64_t values_mask = layout.is_integer() ? ~uint64_t{0} : 0x80FF80FF80FF80FFu;
  const uint64_t values_fixed = layout.is_integer() ? 0 : kSmall;
  const size_t values_bytes = layout.has_scales() ? layout.scale_offset() : layout.total_bytes();
  fill_words(random, values_mask, values_fixed, at, values_bytes);
  fill_words(random, 0x007F007F007F007Fu, kSmall, at + values_bytes,
             layout.total_bytes() - values_bytes);
}

// Random rows, quantised if the matrix takes integers.
class RandomRows {
 public:
  RandomRows(const KernelSet &kernels, const WeightLayout &layout, uint32_t n_rows)
      : depth_(layout.depth),
        stride_(padded_depth(layout.depth)),
        x_(uint64_t{n_rows} * stride_ * sizeof(float), "rows") {
    RandomStream random{1};
    float *x = x_.as<float>();
    for (size_t i = 0; i < n_rows * stride_; ++i) {
      x[i] = static_cast<float>(random.next() >> 40) * 0x1p-23f - 1.0f;
    }
    if (!layout.is_integer()) return;
    const size_t n_groups = divide_up(layout.depth, layout.group);
    q_ = Buffer(uint64_t{n_rows} * stride_, "quantised rows");
    scales_.resize(n_rows * n_groups);
    sums_.resize(n_rows * n_groups);
    quantised_ = {q_.as<int8_t>(), scales_.data(), sums_.data(), stride_, n_groups, layout.group};
    for (size_t r = 0; r < n_rows; ++r) {
      kernels.quantise_row(x + r * stride_, depth_, layout.group, quantised_.q + r * stride_,
                           quantised_.scales + r * n_groups, quantised_.sums + r * n_groups);
    }
  }

  // The first rows, and of each the first depths.
  ActivationRows view(uint32_t n_rows, uint32_t depth) const noexcept {
    return {x_.as<float>(), stride_, n_rows, depth, quantised_};
  }

  static uint64_t bytes(const WeightLayout &layout, uint32_t n_rows) noexcept {
    return uint64_t{n_rows} * padded_depth(layout.depth) * (sizeof(float) + sizeof(int8_t) + 1);
  }

 private:
  uint32_t depth_;
  size_t stride_;
  Buffer x_;
  Buffer q_;
  std::vector<float> scales_;
  std::vector<int32_t> sums_;
  QuantisedRows quantised_;
};

// Matrices one behind the other, and for every thread a place for the results of its tasks.
class MatrixRow {
 public:
  MatrixRow(const ThreadTeam &team, const KernelSet &kernels, const WeightLayout &layout,
            size_t n_matrices, uint32_t most_rows)
      : team_(team),
        kernels_(kernels),
        layout_(layout),
        n_matrices_(n_matrices),
        y_stride_(layout.n_panels() * kPanelColumns),
        most_rows_(most_rows),
        memory_(n_matrices * layout.total_bytes(), "matrices to multiply with"),
        y_(uint64_t{team.size()} * most_rows * y_stride_ * sizeof(float), "results") {
    memory_.ask_for_huge_pages();  // as the weights of a model do
    // Each thread writes the memory that it reads most: systems give it from nearby.
    team.run([&](uint32_t member) {
      for (size_t i = member; i < n_matrices_; i += team_.size()) {
        fill_matrix(layout_, i + 1, memory_.data() + i * layout_.total_bytes());
      }
    });
  }

  static uint64_t result_bytes(const WeightLayout &layout, uint32_t n_members,
                               uint32_t most_rows) noexcept {
    return uint64_t{n_members} * most_rows * layout.n_panels() * kPanelColumns * sizeof(float);
  }

  size_t n_matrices() const noexcept { return n_matrices_; }
  const uint8_t *data() const noexcept { return memory_.data(); }
  uint64_t bytes() const noexcept { return memory_.size(); }

  MatrixTask task(size_t matrix, const ActivationRows &rows, uint32_t member) noexcept {
    MatrixTask task;
    task.matrix = {layout_, memory_.data() + matrix % n_matrices_ * layout_.total_bytes()};
    task.input = rows;
    task.y = y_.as<float>() + size_t{member} * most_rows_ * y_stride_;
    task.y_stride = y_stride_;
    task.uses_integers = layout_.is_integer();
    return task;
  }

  // Multiplies matrices first .. first + n - 1, counted round, with all rows; returns the seconds.
  // Threads share the columns of each matrix in contiguous blocks.
  double multiply(size_t first, size_t n, const ActivationRows &rows) noexcept {
    size_t block = divide_up(layout_.n_panels(), team_.size());
    if (block > kBlockPanels) block = divide_up(block, kBlockPanels) * kBlockPanels;
    const size_t n_blocks = divide_up(layout_.n_panels(), block);
    std::atomic<size_t> next{0};
    return team_.run([&](uint32_t member) {
      for (;;) {
        const size_t taken = next.fetch_add(1, std::memory_order_relaxed);
        if (taken >= n * n_blocks) return;
        multiply_panels(kernels_, task(first + taken / n_blocks, rows, member),
                        taken % n_blocks * block, block);
      }
    });
  }

 private:
  const ThreadTeam &team_;
  const KernelSet &kernels_;
  const WeightLayout layout_;
  const size_t n_matrices_;
  const size_t y_stride_;
  const uint32_t most_rows_;
  Buffer memory_;
  Buffer y_;
};

// One number of rows: its passes go on where the last one ended.
struct Series {
  uint32_t n_rows;
  size_t n_per_pass;
  size_t next;
  double seconds;  // of one matrix, least seen
};

Series begin_series(MatrixRow &matrices, const RandomRows &rows, uint32_t depth, uint32_t n_rows) {
  // The least of several tries: a pass that a disturbance made too short would live in the cache.
  double seconds = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < kTries; ++i) {
    seconds = std::min(seconds, matrices.multiply(i, 1, rows.view(n_rows, depth)));
  }
  const double wanted = kPassSeconds / std::max(seconds, 1e-9);
  const double n_all = static_cast<double>(matrices.n_matrices());
  return {n_rows, static_cast<size_t>(std::clamp(wanted, 1.0, n_all)), 1,
          std::numeric_limits<double>::infinity()};
}

void run_pass(MatrixRow &matrices, const RandomRows &rows, uint32_t depth, Series &series) {
  const double seconds =
      matrices.multiply(series.next, series.n_per_pass, rows.view(series.n_rows, depth));
  series.next = (series.next + series.n_per_pass) % matrices.n_matrices();
  series.seconds = std::min(series.seconds, seconds / static_cast<double>(series.n_per_pass));
}

// The measured matrix, as small as stays in a core's own cache.
WeightLayout cache_layout(WeightLayout layout) {
  layout.depth = std::min(layout.depth, kCacheDepth);
  const size_t n_panels = std::max<size_t>(kCacheBytes / layout.panel_bytes(), 1);
  layout.columns = static_cast<uint32_t>(std::min(n_panels, layout.n_panels()) * kPanelColumns);
  return layout;
}

double matrix_macs(const WeightLayout &layout, uint32_t n_rows) {
  return static_cast<double>(layout.depth) * layout.columns * n_rows;
}

// Each thread has a matrix of its own.
double measure_cache_rate(const ThreadTeam &team, const KernelSet &kernels, MatrixRow &matrices,
                          const WeightLayout &layout, const RandomRows &rows) {
  const uint64_t macs = uint64_t{layout.depth} * layout.columns * kCacheRows;
  return team.measure_rate(kCacheSeconds, [&](uint32_t member) {
    multiply_panels(kernels, matrices.task(member, rows.view(kCacheRows, layout.depth), member), 0,
                    layout.n_panels());
    return macs;
  });
}

KernelFigures make_figures(const WeightLayout &layout, const MachineFigures &machine,
                           const Series &series, double first_seconds) {
  const double bytes = static_cast<double>(layout.total_bytes());
  const double macs = matrix_macs(layout, series.n_rows);
  KernelFigures figures;
  figures.n_rows = series.n_rows;
  figures.seconds = series.seconds;
  figures.gbps = bytes / series.seconds * 1e-9;
  figures.gmacs = macs / series.seconds * 1e-9;
  figures.relative_time = series.seconds / first_seconds;
  figures.roof_share =
      std::max(figures.gbps / machine.read_gbps, figures.gmacs / machine.peak_gmacs);
  return figures;
}

}  // namespace

MachineFigures measure_kernels(ThreadPool &threads, const MeasurementOptions &options,
                               std::span<const uint32_t> rows, std::span<KernelFigures> figures) {
  const KernelRow &set = choose_kernel_row(options.kernel_set);
  const KernelSet &kernels = *set.set;
  const WeightLayout &layout = options.layout;
  const PeakKernel &peak = peak_kernel(kernels, layout);
  const uint32_t most_rows = std::max(kCacheRows, *std::max_element(rows.begin(), rows.end()));
  const size_t n_matrices = std::max<uint64_t>(options.memory_bytes / layout.total_bytes(), 1);
  require_memory(
      saturating_add(n_matrices * layout.total_bytes(),
                     RandomRows::bytes(layout, most_rows) +
                         MatrixRow::result_bytes(layout, threads.n_threads(), most_rows)));

  const ThreadTeam team(threads);
  const RandomRows inputs(kernels, layout, most_rows);
  MatrixRow matrices(team, kernels, layout, n_matrices, most_rows);
  const WeightLayout small = cache_layout(layout);
  MatrixRow small_matrices(team, kernels, small, team.size(), kCacheRows);

  MachineFigures machine;
  machine.n_threads = team.size();
  machine.kernel_set = set.name;
  machine.instruction = peak.instruction;
  std::vector<Series> series;
  for (const uint32_t n_rows : rows) {
    series.push_back(begin_series(matrices, inputs, layout.depth, n_rows));
  }
  for (uint32_t run = 0; run < options.n_runs; ++run) {
    const uint64_t part_bytes = matrices.bytes() / kReadParts / kPartAlignment * kPartAlignment;
    const uint8_t *part = matrices.data() + run % kReadParts * part_bytes;
    const double read = measure_read_rate(team, kernels, part, part_bytes) * 1e-9;
    machine.read_gbps = std::max(machine.read_gbps, read);
    machine.peak_gmacs = std::max(machine.peak_gmacs, measure_peak(team, peak) * 1e-9);
    for (Series &one : series) run_pass(matrices, inputs, layout.depth, one);
    const double cached = measure_cache_rate(team, kernels, small_matrices, small, inputs) * 1e-9;
    machine.cache_gmacs = std::max(machine.cache_gmacs, cached);
  }
  for (size_t i = 0; i < series.size(); ++i) {
    figures[i] = make_figures(layout, machine, series[i], series[0].seconds);
  }
  return machine;
}

}  // namespace colibri::cpu

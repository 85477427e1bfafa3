// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/measure.h: options are checked here, the measuring is the device's.

#include "colibri/measure.h"

#include <cstdio>
#include <span>
#include <vector>

#include "lib/capi/backends.h"
#include "lib/capi/guard.h"
#include "lib/capi/option_checks.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"

namespace colibri {
namespace {

constexpr uint32_t kDefaultColumns = 2048;
constexpr uint32_t kDefaultDepth = 6144;
constexpr uint32_t kMostWidth = 1 << 20;
constexpr uint32_t kDefaultRuns = 24;
constexpr uint32_t kMostRuns = 1000;
constexpr uint32_t kMostRows = 4096;
constexpr size_t kMostNumbersOfRows = 64;
constexpr uint32_t kGroup = 64;
constexpr uint64_t kLeastMemory = 1 << 20;
constexpr uint64_t kDefaultMemory = 1280ull << 20;

uint64_t read_memory_bytes(uint64_t bytes) {
  if (bytes == 0) return kDefaultMemory;
  if (bytes >= kLeastMemory) return bytes;
  throw_error(
      StatusCode::kArgument, "memory_bytes is %llu; must be at least %llu, or 0 for the default",
      static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(kLeastMemory));
}

// No default: what is measured depends on it.
uint32_t read_measured_threads(uint32_t n_threads) {
  return in_range("n_threads", n_threads, 1, ThreadPool::kMaxThreads);
}

WeightLayout read_layout(const colibri_measure_options &options) {
  const uint32_t columns = in_range("columns", options.columns, kDefaultColumns, kMostWidth);
  const uint32_t depth = in_range("depth", options.depth, kDefaultDepth, kMostWidth);
  switch (options.matrix) {
    case COLIBRI_MATRIX_DEFAULT:
    case COLIBRI_MATRIX_INT4:
      return quantised_layout(WeightFormat::kInt4, columns, depth, kGroup);
    case COLIBRI_MATRIX_INT8:
      return quantised_layout(WeightFormat::kInt8, columns, depth, kGroup);
    case COLIBRI_MATRIX_BF16:
      return {.format = WeightFormat::kBF16, .columns = columns, .depth = depth};
    default:
      throw_error(StatusCode::kArgument,
                  "matrix is %d; must be 1 (INT4), 2 (INT8) or 3 (BF16), or 0 for the default",
                  options.matrix);
  }
}

MeasurementOptions read_options(const colibri_measure_options &options) {
  MeasurementOptions result;
  if (options.kernel_set != nullptr) result.kernel_set = options.kernel_set;
  result.layout = read_layout(options);
  result.n_runs = in_range("min_runs", options.min_runs, kDefaultRuns, kMostRuns);
  result.memory_bytes = read_memory_bytes(options.memory_bytes);
  return result;
}

std::span<const uint32_t> read_rows(const uint32_t *rows, size_t n_rows) {
  require_pointer(rows, "rows");
  if (n_rows == 0 || n_rows > kMostNumbersOfRows) {
    throw_error(StatusCode::kArgument, "n_rows is %zu; must be 1..%zu", n_rows, kMostNumbersOfRows);
  }
  for (size_t i = 0; i < n_rows; ++i) {
    if (rows[i] >= 1 && rows[i] <= kMostRows) continue;
    throw_error(StatusCode::kArgument, "rows[%zu] is %u; must be 1..%u", i, rows[i], kMostRows);
  }
  return {rows, n_rows};
}

void check_figure_size(size_t figure_size) {
  constexpr size_t kSmallest = kFirstVersionBytes<colibri_kernel_figures>;
  if (figure_size >= kSmallest && figure_size <= kLargestStructBytes) return;
  throw_error(StatusCode::kArgument,
              "figure_size is %zu; pass sizeof(colibri_kernel_figures), at least %zu", figure_size,
              kSmallest);
}

colibri_machine_figures to_public(const MachineFigures &machine) noexcept {
  colibri_machine_figures result{};
  result.n_threads = machine.n_threads;
  result.read_gbps = machine.read_gbps;
  result.peak_gmacs = machine.peak_gmacs;
  result.cache_gmacs = machine.cache_gmacs;
  std::snprintf(result.kernel_set, sizeof result.kernel_set, "%s", machine.kernel_set);
  std::snprintf(result.instruction, sizeof result.instruction, "%s", machine.instruction);
  return result;
}

colibri_kernel_figures to_public(const KernelFigures &figures, size_t figure_size) noexcept {
  colibri_kernel_figures result{};
  result.struct_size = static_cast<uint32_t>(figure_size);
  result.n_rows = figures.n_rows;
  result.seconds = figures.seconds;
  result.gbps = figures.gbps;
  result.gmacs = figures.gmacs;
  result.relative_time = figures.relative_time;
  result.roof_share = figures.roof_share;
  return result;
}

}  // namespace
}  // namespace colibri

void colibri_measure_options_init(colibri_measure_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

colibri_status colibri_measure_kernels(const colibri_measure_options *options, const uint32_t *rows,
                                       size_t n_rows, colibri_machine_figures *machine,
                                       colibri_kernel_figures *figures, size_t figure_size,
                                       colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    const colibri_measure_options given = colibri::read_struct(options, "options");
    const colibri::MeasurementOptions wanted = colibri::read_options(given);
    const std::span<const uint32_t> numbers = colibri::read_rows(rows, n_rows);
    const uint32_t machine_bytes = colibri::check_result(machine, "machine");
    colibri::require_pointer(figures, "figures");
    colibri::check_figure_size(figure_size);

    colibri::ThreadPool threads(colibri::read_measured_threads(given.n_threads));
    std::vector<colibri::KernelFigures> measured(n_rows);
    const colibri::MachineFigures bounds =
        colibri::measure_kernels(threads, wanted, numbers, measured);
    colibri::write_result(colibri::to_public(bounds), machine_bytes, machine);
    char *place = reinterpret_cast<char *>(figures);
    for (const colibri::KernelFigures &one : measured) {
      const colibri_kernel_figures converted = colibri::to_public(one, figure_size);
      colibri::write_sized(&converted, sizeof converted, figure_size, place);
      place += figure_size;
    }
  });
}

colibri_status colibri_measure_read_bandwidth(uint32_t n_threads, uint64_t memory_bytes,
                                              double *read_gbps, colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(read_gbps, "read_gbps");
    const uint64_t bytes = colibri::read_memory_bytes(memory_bytes);
    if (n_threads == 0) {
      colibri::throw_error(colibri::StatusCode::kArgument, "n_threads is 0; must be 1..%u",
                           colibri::ThreadPool::kMaxThreads);
    }
    colibri::ThreadPool threads(colibri::read_measured_threads(n_threads));
    *read_gbps = colibri::measure_read_bandwidth(threads, bytes);
  });
}

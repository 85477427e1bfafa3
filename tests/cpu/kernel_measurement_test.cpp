// SPDX-License-Identifier: Apache-2.0
//
// The figures of a measurement fit each other. How good they are is not asserted.

#include "cpu/kernel_measurement.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;

namespace {

MeasurementOptions small_options(const char *kernel_set, const WeightLayout &layout) {
  MeasurementOptions options;
  options.kernel_set = kernel_set;
  options.layout = layout;
  options.n_runs = 1;
  options.memory_bytes = 1 << 20;
  return options;
}

}  // namespace

TEST_CASE("figures of every set and format follow from seconds, bytes and multiply-adds") {
  ThreadPool threads(2);
  const std::vector<uint32_t> rows = {1, 9};
  for (const cpu::KernelRow &row : test::runnable_rows()) {
    for (const WeightFormat format :
         {WeightFormat::kInt4, WeightFormat::kInt8, WeightFormat::kBF16}) {
      INFO(row.name << " " << weight_format_name(format));
      const WeightLayout layout = test::make_layout(format, 136, 200, 64);
      std::vector<KernelFigures> figures(rows.size());
      const MachineFigures machine =
          cpu::measure_kernels(threads, small_options(row.name, layout), rows, figures);
      CHECK(machine.kernel_set == std::string(row.name));
      CHECK(machine.n_threads >= 1);
      CHECK(machine.read_gbps > 0);
      CHECK(machine.peak_gmacs > 0);
      CHECK(machine.cache_gmacs > 0);
      for (size_t i = 0; i < rows.size(); ++i) {
        const KernelFigures &one = figures[i];
        CHECK(one.n_rows == rows[i]);
        CHECK(one.seconds > 0);
        CHECK(one.gbps == Approx(1e-9 * static_cast<double>(layout.total_bytes()) / one.seconds));
        CHECK(one.gmacs == Approx(1e-9 * 136 * 200 * rows[i] / one.seconds));
        CHECK(one.relative_time == Approx(one.seconds / figures[0].seconds));
        CHECK(one.roof_share ==
              Approx(std::max(one.gbps / machine.read_gbps, one.gmacs / machine.peak_gmacs)));
      }
    }
  }
}

TEST_CASE("a matrix larger than the memory asked for is measured alone") {
  ThreadPool threads(1);
  const std::vector<uint32_t> rows = {3};
  std::vector<KernelFigures> figures(1);
  const WeightLayout layout = test::make_layout(WeightFormat::kInt8, 1200, 1000, 64);
  cpu::measure_kernels(threads, small_options("", layout), rows, figures);
  CHECK(figures[0].seconds > 0);
}

TEST_CASE("an unknown kernel set and impossible memory are refused") {
  ThreadPool threads(1);
  const std::vector<uint32_t> rows = {1};
  std::vector<KernelFigures> figures(1);
  const WeightLayout layout = test::make_layout(WeightFormat::kInt4, 64, 64, 64);
  CHECK_THROWS_AS(cpu::measure_kernels(threads, small_options("mmx", layout), rows, figures),
                  Error);
  MeasurementOptions options = small_options("", layout);
  options.memory_bytes = UINT64_MAX;
  CHECK_THROWS_AS(cpu::measure_kernels(threads, options, rows, figures), Error);
}

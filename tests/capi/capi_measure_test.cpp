// SPDX-License-Identifier: Apache-2.0
//
// Measuring a machine and its kernels: what is refused, what is filled in. How fast anything is, is
// not asserted.

#include <cstring>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

struct Measurement {
  colibri_machine_figures machine{};
  std::vector<colibri_kernel_figures> figures;
};

colibri_measure_options quick_options() {
  colibri_measure_options options;
  colibri_measure_options_init(&options, sizeof options);
  options.columns = 64;
  options.depth = 128;
  options.min_runs = 1;
  options.memory_bytes = 1 << 20;
  return options;
}

colibri_status measure(const colibri_measure_options &options, const std::vector<uint32_t> &rows,
                       Measurement *result, colibri_error *error = nullptr) {
  result->machine.struct_size = sizeof result->machine;
  result->figures.resize(rows.size());
  return colibri_measure_kernels(&options, rows.data(), rows.size(), &result->machine,
                                 result->figures.data(), sizeof(colibri_kernel_figures), error);
}

template <typename Change>
void check_refused(const char *field, Change change) {
  colibri_measure_options options = quick_options();
  change(options);
  Measurement result;
  const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
    return measure(options, {1}, &result, error);
  });
  INFO(message);
  CHECK(message.find(field) != std::string::npos);
  CHECK(result.machine.read_gbps == 0);
}

}  // namespace

TEST_CASE("kernels are measured with every format of matrix") {
  for (const int32_t matrix :
       {COLIBRI_MATRIX_DEFAULT, COLIBRI_MATRIX_INT4, COLIBRI_MATRIX_INT8, COLIBRI_MATRIX_BF16}) {
    colibri_measure_options options = quick_options();
    options.matrix = matrix;
    options.n_threads = 2;
    Measurement result;
    REQUIRE(measure(options, {2, 1}, &result) == COLIBRI_OK);
    CHECK(result.machine.read_gbps > 0);
    CHECK(result.machine.peak_gmacs > 0);
    CHECK(result.machine.cache_gmacs > 0);
    CHECK(result.machine.n_threads >= 1);
    CHECK(std::strlen(result.machine.instruction) > 0);
    CHECK(result.figures[0].n_rows == 2);
    CHECK(result.figures[0].relative_time == 1);
    CHECK(result.figures[1].n_rows == 1);
    for (const colibri_kernel_figures &figures : result.figures) {
      CHECK(figures.struct_size == sizeof figures);
      CHECK(figures.seconds > 0);
      CHECK(figures.gbps > 0);
      CHECK(figures.gmacs > 0);
      CHECK(figures.roof_share > 0);
    }
  }
}

TEST_CASE("the kernel set that is asked for is the one that is measured") {
  colibri_measure_options options = quick_options();
  options.kernel_set = "ref";
  Measurement result;
  REQUIRE(measure(options, {1}, &result) == COLIBRI_OK);
  CHECK(std::string(result.machine.kernel_set) == "ref");
  check_refused("sse9", [](colibri_measure_options &wrong) { wrong.kernel_set = "sse9"; });
}

TEST_CASE("a field outside its range is named") {
  check_refused("n_threads", [](colibri_measure_options &wrong) { wrong.n_threads = 1025; });
  check_refused("matrix", [](colibri_measure_options &wrong) { wrong.matrix = 4; });
  check_refused("matrix", [](colibri_measure_options &wrong) { wrong.matrix = -1; });
  check_refused("columns", [](colibri_measure_options &wrong) { wrong.columns = 1048577; });
  check_refused("depth", [](colibri_measure_options &wrong) { wrong.depth = 1048577; });
  check_refused("min_runs", [](colibri_measure_options &wrong) { wrong.min_runs = 1001; });
  check_refused("memory_bytes", [](colibri_measure_options &wrong) { wrong.memory_bytes = 1000; });
}

TEST_CASE("numbers of rows are 1 to 4096, up to 64 of them") {
  const colibri_measure_options options = quick_options();
  Measurement result;
  for (const std::vector<uint32_t> &rows :
       {std::vector<uint32_t>{}, {1, 0}, {4097}, std::vector<uint32_t>(65, 1)}) {
    CHECK(measure(options, rows, &result) == COLIBRI_E_ARGUMENT);
  }
}

TEST_CASE("memory that the machine does not have is refused") {
  colibri_measure_options options = quick_options();
  options.memory_bytes = UINT64_MAX;
  Measurement result;
  CHECK(measure(options, {1}, &result) == COLIBRI_E_MEMORY);
  double read_gbps = 7;
  CHECK(colibri_measure_read_bandwidth(1, UINT64_MAX, &read_gbps, nullptr) == COLIBRI_E_MEMORY);
  CHECK(read_gbps == 7);
}

TEST_CASE("elements of figures are as large as the caller says") {
  const colibri_measure_options options = quick_options();
  const uint32_t rows[] = {1, 2};
  colibri_machine_figures machine{};
  machine.struct_size = sizeof machine;
  struct Larger {
    colibri_kernel_figures known;
    uint64_t unknown;
  };
  Larger figures[2];
  std::memset(figures, 0xC5, sizeof figures);
  auto *first = &figures[0].known;
  REQUIRE(colibri_measure_kernels(&options, rows, 2, &machine, first, sizeof(Larger), nullptr) ==
          COLIBRI_OK);
  CHECK(figures[1].known.struct_size == sizeof(Larger));
  CHECK(figures[1].known.n_rows == 2);
  CHECK(figures[1].unknown == 0);
  for (const size_t wrong : {size_t{0}, sizeof(colibri_kernel_figures) - 1, size_t{5000}}) {
    CHECK(colibri_measure_kernels(&options, rows, 2, &machine, first, wrong, nullptr) ==
          COLIBRI_E_ARGUMENT);
  }
}

TEST_CASE("plain read bandwidth is measured with any number of threads") {
  double read_gbps = 0;
  REQUIRE(colibri_measure_read_bandwidth(2, 1 << 20, &read_gbps, nullptr) == COLIBRI_OK);
  CHECK(read_gbps > 0);
  CHECK(colibri_measure_read_bandwidth(0, 0, &read_gbps, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_measure_read_bandwidth(1025, 0, &read_gbps, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_measure_read_bandwidth(1, 1000, &read_gbps, nullptr) == COLIBRI_E_ARGUMENT);
}

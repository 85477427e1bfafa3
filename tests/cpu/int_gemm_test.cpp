// SPDX-License-Identifier: Apache-2.0
//
// Integer matrix products: every kernel set against the reference, bit for bit; the reference
// against double precision.

#include <cmath>

#include "cpu/matrix_task.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::kKernelSetRef;
using colibri::cpu::MatrixTask;
using colibri::cpu::multiply_panels;

namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kInt8, WeightFormat::kInt4,
                                     WeightFormat::kMxFp4};

MatrixTask make_task(const TestMatrix &matrix, TestRows &rows, GuardedArray<float> &y) {
  MatrixTask task;
  task.matrix = matrix.view();
  task.input = rows.view();
  task.y = y.data();
  task.y_stride = matrix.layout.columns;
  task.uses_integers = true;
  return task;
}

// Runs all panels in two unequal parts.
void run(const KernelSet &set, const MatrixTask &task) {
  const size_t n_panels = task.matrix.layout.n_panels();
  multiply_panels(set, task, 0, n_panels / 3);
  multiply_panels(set, task, n_panels / 3, n_panels - n_panels / 3);
}

void compare_sets(const TestMatrix &matrix, TestRows &rows) {
  const WeightLayout &layout = matrix.layout;
  GuardedArray<float> expected(rows.n_rows * layout.columns);
  run(kKernelSetRef, make_task(matrix, rows, expected));
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, weight_format_name(layout.format), layout.columns, layout.depth, layout.group,
            layout.has_row_scale, rows.n_rows);
    GuardedArray<float> got(expected.size());
    run(*row.set, make_task(matrix, rows, got));
    REQUIRE(are_same(got.data(), expected.data(), got.size()));
    REQUIRE(got.front_is_intact());
  }
}

// Every kind of scales that the format has.
void compare_sets(WeightLayout layout, size_t n_rows) {
  for (const ScaleType scale_type : {ScaleType::kF32, ScaleType::kBF16, ScaleType::kE8M0}) {
    const bool is_mxfp4 = layout.format == WeightFormat::kMxFp4;
    if (is_mxfp4 != (scale_type == ScaleType::kE8M0)) continue;
    layout.scale_type = scale_type;
    std::mt19937 random(11);
    const TestMatrix matrix(layout, random);
    TestRows rows(n_rows, layout.depth, layout.group, random);
    compare_sets(matrix, rows);
  }
}

}  // namespace

TEST_CASE("integer products have the reference's bits for awkward sizes") {
  for (const WeightFormat format : kFormats) {
    for (const size_t size : {1, 15, 16, 17, 31, 33, 64, 65, 100, 150}) {
      compare_sets(make_layout(format, size, 100, 32), 3);
      for (const size_t depth : {1, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 63, 65, 100}) {
        compare_sets(make_layout(format, size, depth, 16), 1);
      }
    }
  }
}

TEST_CASE("integer products have the reference's bits for every number of rows") {
  for (const WeightFormat format : kFormats) {
    for (size_t n_rows = 1; n_rows <= 64; ++n_rows) {
      compare_sets(make_layout(format, 150, 268, 64), n_rows);
      compare_sets(make_layout(format, 50, 268, 64, true), n_rows);
    }
  }
}

TEST_CASE("integer products have the reference's bits for every group") {
  for (const WeightFormat format : kFormats) {
    for (const size_t group : {16, 32, 48, 64, 96, 128, 192, 256}) {
      for (const size_t n_rows : {1, 2, 4, 8}) {
        compare_sets(make_layout(format, 33, 810, group), n_rows);
        compare_sets(make_layout(format, 33, 768, group, true), n_rows);
      }
    }
  }
}

TEST_CASE("integer products have the reference's bits for production widths") {
  for (const WeightFormat format : kFormats) {
    for (const size_t n_rows : {1, 2, 9}) {
      compare_sets(make_layout(format, 96, 6144, 64), n_rows);
      compare_sets(make_layout(format, 144, 2048, 64), n_rows);
      compare_sets(make_layout(format, 144, 768, 128), n_rows);
      compare_sets(make_layout(format, 80, 14336, 32), n_rows);
    }
    compare_sets(make_layout(format, 2048, 6144, 64), 1);
  }
}

TEST_CASE("the largest integers do not saturate") {
  std::mt19937 random(12);
  for (const WeightFormat format : kFormats) {
    for (const int byte : {0x00, 0x77, 0x7F, 0x80, 0xFF}) {
      TestMatrix matrix(make_layout(format, 32, 256, 256), random);
      std::fill(matrix.values.begin(), matrix.values.end(), static_cast<uint8_t>(byte));
      matrix.pack();
      for (const int8_t extreme : {int8_t{127}, int8_t{-127}}) {
        const size_t group = matrix.layout.group;
        TestRows rows(5, 256, group, random);
        std::fill(rows.q.begin(), rows.q.end(), extreme);
        std::fill(rows.sums.begin(), rows.sums.end(), static_cast<int32_t>(group) * extreme);
        compare_sets(matrix, rows);
      }
    }
  }
}

TEST_CASE("integer products of MXFP4 have the reference's bits for widths of models") {
  for (const size_t depth : {2880, 4096, 2879}) {
    for (size_t n_rows = 1; n_rows <= 17; ++n_rows) {
      compare_sets(make_layout(WeightFormat::kMxFp4, 90, depth, 32), n_rows);
    }
  }
}

TEST_CASE("integer products of MXFP4 are exact: small whole numbers come out as they are") {
  std::mt19937 random(18);
  TestMatrix matrix(make_layout(WeightFormat::kMxFp4, 40, 96, 32), random);
  std::fill(matrix.scale_bytes.begin(), matrix.scale_bytes.end(), uint8_t{128});
  matrix.pack();
  TestRows rows(3, 96, 32, random);
  std::fill(rows.scales.begin(), rows.scales.end(), 1.0f);
  for (const KernelRow &row : runnable_rows()) {
    CAPTURE(row.name);
    GuardedArray<float> y(3 * 40);
    run(*row.set, make_task(matrix, rows, y));
    for (size_t i = 0; i < y.size(); ++i) {
      double sum = 0.0;
      for (size_t d = 0; d < 96; ++d) sum += matrix.weight(i % 40, d) * rows.q[i / 40 * 96 + d];
      REQUIRE(y[i] == sum);
    }
  }
}

TEST_CASE("the outermost exponents of MXFP4 are those of the reference") {
  std::mt19937 random(19);
  for (const size_t n_rows : {1, 2, 3, 5, 9}) {
    TestMatrix matrix(make_layout(WeightFormat::kMxFp4, 80, 96, 32), random);
    constexpr uint8_t kOuter[] = {0, 1, 2, 253, 254, 255};
    for (uint8_t &byte : matrix.scale_bytes) byte = kOuter[random() % 6];
    matrix.pack();
    TestRows rows(n_rows, 96, 32, random);
    compare_sets(matrix, rows);
  }
}

TEST_CASE("a NaN scale of one group reaches exactly its own row") {
  std::mt19937 random(13);
  const TestMatrix matrix(make_layout(WeightFormat::kInt4, 32, 128, 64), random);
  TestRows rows(3, 128, 64, random);
  rows.scales[3] = NAN;
  for (const KernelRow &row : runnable_rows()) {
    CAPTURE(row.name);
    GuardedArray<float> y(3 * 32);
    run(*row.set, make_task(matrix, rows, y));
    for (size_t i = 0; i < y.size(); ++i) REQUIRE(std::isnan(y[i]) == (i / 32 == 1));
  }
}

TEST_CASE("integer products take rows through row lists") {
  std::mt19937 random(14);
  for (const WeightFormat format : kFormats) {
    const TestMatrix matrix(make_layout(format, 40, 50, 16), random);
    TestRows rows(9, 50, matrix.layout.group, random);
    const int32_t x_rows[] = {8, 2, 2, 5, 0};
    const int32_t y_rows[] = {1, 6, 0, 3, 4};
    GuardedArray<float> all(9 * 40);
    run(kKernelSetRef, make_task(matrix, rows, all));
    for (const KernelRow &row : runnable_rows()) {
      CAPTURE(row.name);
      GuardedArray<float> got(7 * 40);
      MatrixTask task = make_task(matrix, rows, got);
      task.x_rows = x_rows;
      task.y_rows = y_rows;
      task.input.n_rows = 5;
      run(*row.set, task);
      for (size_t i = 0; i < 5; ++i) {
        REQUIRE(are_same(&got[static_cast<size_t>(y_rows[i]) * 40],
                         &all[static_cast<size_t>(x_rows[i]) * 40], 40));
      }
      REQUIRE(got.is_untouched(2 * 40));
      REQUIRE(got.is_untouched(5 * 40));
    }
  }
}

TEST_CASE("the reference's integer product agrees with double precision") {
  std::mt19937 random(15);
  for (const WeightFormat format : kFormats) {
    const TestMatrix matrix(make_layout(format, 37, 203, 48), random);
    const size_t group = matrix.layout.group;
    TestRows rows(2, 203, group, random);
    GuardedArray<float> got(2 * 37);
    run(kKernelSetRef, make_task(matrix, rows, got));
    const QuantisedRows quantised = rows.view().quantised;
    for (size_t r = 0; r < 2; ++r) {
      for (size_t c = 0; c < 37; ++c) {
        double sum = 0.0, size = 0.0;
        for (size_t d = 0; d < 203; ++d) {
          const double x =
              quantised.q[r * quantised.q_stride + d] *
              static_cast<double>(quantised.scales[r * quantised.group_stride + d / group]);
          sum += matrix.weight(c, d) * x;
          size += std::fabs(matrix.weight(c, d) * x);
        }
        REQUIRE(std::fabs(got[r * 37 + c] - sum) <= 2e-6 * size);
      }
    }
  }
}

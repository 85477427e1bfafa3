// SPDX-License-Identifier: Apache-2.0
//
// Float matrix products: every kernel set against the reference, bit for bit; the reference against
// double precision.

#include <cmath>
#include <cstring>

#include "cpu/matrix_task.h"
#include "lib/base/number_formats.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::kKernelSetRef;
using colibri::cpu::MatrixTask;
using colibri::cpu::multiply_panels;

namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32,  WeightFormat::kBF16, WeightFormat::kF16,
                                     WeightFormat::kFp8,  WeightFormat::kInt8, WeightFormat::kInt4,
                                     WeightFormat::kMxFp4};
constexpr size_t kGap = 3;

// Output rows with gaps between them, the last one ending at the guard page.
struct Output {
  Output(size_t rows, size_t columns)
      : n_columns(columns), stride(columns + kGap), y((rows - 1) * stride + columns) {}
  bool gaps_are_untouched() const {
    for (size_t i = 0; i < y.size(); ++i) {
      if (i % stride >= n_columns && !y.is_untouched(i)) return false;
    }
    return y.front_is_intact();
  }
  size_t n_columns, stride;
  GuardedArray<float> y;
};

MatrixTask make_task(const TestMatrix &matrix, TestRows &rows, Output &output) {
  MatrixTask task;
  task.matrix = matrix.view();
  task.input = rows.view();
  task.y = output.y.data();
  task.y_stride = output.stride;
  return task;
}

// Runs all panels in the two unequal parts that a split over threads makes.
void run(const KernelSet &set, const MatrixTask &task) {
  const size_t n_panels = task.matrix.layout.n_panels();
  multiply_panels(set, task, 0, n_panels / 3);
  multiply_panels(set, task, n_panels / 3, n_panels - n_panels / 3);
}

void compare_layout(const WeightLayout &layout, size_t n_rows) {
  std::mt19937 random(7);
  const TestMatrix matrix(layout, random);
  TestRows rows(n_rows, layout.depth, 0, random);
  Output expected(n_rows, layout.columns);
  run(kKernelSetRef, make_task(matrix, rows, expected));
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, weight_format_name(layout.format), layout.columns, layout.depth, layout.group,
            layout.has_row_scale, n_rows);
    Output got(n_rows, layout.columns);
    run(*row.set, make_task(matrix, rows, got));
    REQUIRE(are_same(got.y.data(), expected.y.data(), got.y.size()));
    REQUIRE(got.gaps_are_untouched());
  }
}

// Both kinds of scales where there are scales.
void compare_sets(WeightLayout layout, size_t n_rows) {
  compare_layout(layout, n_rows);
  if (!layout.is_integer() || layout.format == WeightFormat::kMxFp4) return;
  layout.scale_type = ScaleType::kBF16;
  compare_layout(layout, n_rows);
}

}  // namespace

TEST_CASE("float products have the reference's bits for awkward sizes") {
  for (const WeightFormat format : kFormats) {
    for (const size_t size : {1, 15, 16, 17, 31, 33, 64, 65, 100, 150}) {
      compare_sets(make_layout(format, size, 100, 32), 3);
      compare_sets(make_layout(format, 20, size, 16), 2);
    }
  }
}

TEST_CASE("float products have the reference's bits for every number of rows") {
  for (const WeightFormat format : kFormats) {
    for (size_t n_rows = 1; n_rows <= 64; ++n_rows) {
      compare_sets(make_layout(format, n_rows <= 17 ? 150 : 40, 76, 48), n_rows);
    }
  }
}

TEST_CASE("float products have the reference's bits for every group") {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const size_t group : {16, 32, 48, 64, 96, 128, 192, 256}) {
      compare_sets(make_layout(format, 33, 410, group), 2);
    }
    compare_sets(make_layout(format, 33, 410, 64, true), 2);
  }
}

TEST_CASE("float products have the reference's bits for production widths") {
  for (const WeightFormat format : kFormats) {
    compare_sets(make_layout(format, 768, 2048, 64), 1);
    compare_sets(make_layout(format, 80, 6144, 64), 5);
    compare_sets(make_layout(format, 48, 14336, 64), 2);
  }
}

TEST_CASE("float products take rows through row lists") {
  std::mt19937 random(8);
  const TestMatrix matrix(make_layout(WeightFormat::kBF16, 40, 50, 0), random);
  TestRows rows(9, 50, 0, random);
  const int32_t x_rows[] = {8, 2, 2, 5, 0};
  const int32_t y_rows[] = {1, 6, 0, 3, 4};
  Output all(9, 40);
  multiply_panels(kKernelSetRef, make_task(matrix, rows, all), 0, 3);
  for (const KernelRow &row : runnable_rows()) {
    CAPTURE(row.name);
    Output got(7, 40);
    MatrixTask task = make_task(matrix, rows, got);
    task.x_rows = x_rows;
    task.y_rows = y_rows;
    task.input.n_rows = 5;
    multiply_panels(*row.set, task, 0, 3);
    for (size_t i = 0; i < 5; ++i) {
      REQUIRE(are_same(&got.y[static_cast<size_t>(y_rows[i]) * got.stride],
                       &all.y[static_cast<size_t>(x_rows[i]) * all.stride], 40));
    }
    REQUIRE(got.y.is_untouched(2 * got.stride));
    REQUIRE(got.y.is_untouched(5 * got.stride));
  }
}

TEST_CASE("NaN and infinity pass through float products as in the reference") {
  std::mt19937 random(9);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kInt4}) {
    const TestMatrix matrix(make_layout(format, 20, 64, 32), random);
    TestRows rows(3, 64, 0, random);
    rows.x[5] = NAN;
    rows.x[64 + 7] = infinity;
    Output expected(3, 20);
    run(kKernelSetRef, make_task(matrix, rows, expected));
    REQUIRE(std::isnan(expected.y[0]));
    for (const KernelRow &row : optimised_rows()) {
      Output got(3, 20);
      run(*row.set, make_task(matrix, rows, got));
      REQUIRE(are_same(got.y.data(), expected.y.data(), got.y.size()));
    }
  }
}

TEST_CASE("every FP8 and every F16 code is widened as the reference widens it") {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kF16}) {
    const WeightLayout layout = make_layout(format, 256, format == WeightFormat::kF16 ? 256 : 1, 0);
    std::vector<uint8_t> values;
    for (uint32_t code = 0; code < 256u * layout.depth; ++code) {
      values.push_back(static_cast<uint8_t>(code));
      if (format == WeightFormat::kF16) values.push_back(static_cast<uint8_t>(code >> 8));
    }
    const float scales[2] = {1.0f, 1.0f};
    GuardedArray<uint8_t> packed(layout.total_bytes());
    pack_matrix(layout, {values.data(), scales}, packed.data());
    // One depth of the matrix at a time, by rows of the unit matrix.
    GuardedArray<float> x(layout.depth);
    for (uint32_t d = 0; d < layout.depth; ++d) {
      std::fill(x.begin(), x.end(), 0.0f);
      x[d] = 1.0f;
      Output expected(1, 256);
      MatrixTask task;
      task.matrix = {layout, packed.data()};
      task.input.x = x.data();
      task.input.n_rows = 1;
      task.y = expected.y.data();
      multiply_panels(kKernelSetRef, task, 0, 16);
      for (const KernelRow &row : optimised_rows()) {
        CAPTURE(row.name, d);
        Output got(1, 256);
        task.y = got.y.data();
        multiply_panels(*row.set, task, 0, 16);
        REQUIRE(are_same(got.y.data(), expected.y.data(), 256));
      }
    }
  }
}

TEST_CASE("float products of MXFP4 have the bits of those of its dequantised weights") {
  std::mt19937 random(16);
  const std::pair<size_t, size_t> shapes[] = {{33, 2880}, {20, 4096}, {50, 1}, {17, 203}, {7, 70}};
  for (const auto &[columns, depth] : shapes) {
    const TestMatrix matrix(make_layout(WeightFormat::kMxFp4, columns, depth, 32), random);
    TestMatrix wide(make_layout(WeightFormat::kF32, columns, depth, 0), random);
    for (size_t c = 0; c < columns; ++c) {
      for (size_t d = 0; d < depth; ++d) {
        const float weight = matrix.weight(c, d);
        std::memcpy(&wide.values[4 * (c * depth + d)], &weight, 4);
      }
    }
    wide.pack();
    for (size_t n_rows = 1; n_rows <= 17; ++n_rows) {
      TestRows rows(n_rows, depth, 0, random);
      for (const KernelRow &row : runnable_rows()) {
        CAPTURE(row.name, columns, depth, n_rows);
        Output expected(n_rows, columns), got(n_rows, columns);
        run(*row.set, make_task(wide, rows, expected));
        run(*row.set, make_task(matrix, rows, got));
        REQUIRE(are_same(got.y.data(), expected.y.data(), got.y.size()));
      }
    }
  }
}

TEST_CASE("every code of MXFP4 and every exponent is widened as the reference widens it") {
  std::mt19937 random(17);
  TestMatrix matrix(make_layout(WeightFormat::kMxFp4, 256, 32, 32), random);
  for (size_t c = 0; c < 256; ++c) {
    matrix.scale_bytes[c] = static_cast<uint8_t>(c);
    for (size_t i = 0; i < 16; ++i) matrix.values[16 * c + i] = static_cast<uint8_t>(0x11 * i);
  }
  matrix.pack();
  GuardedArray<float> x(32);
  for (size_t d = 0; d < 32; ++d) {
    std::fill(x.begin(), x.end(), 0.0f);
    x[d] = 1.0f;
    for (const KernelRow &row : runnable_rows()) {
      CAPTURE(row.name, d);
      Output got(1, 256);
      MatrixTask task;
      task.matrix = matrix.view();
      task.input.x = x.data();
      task.input.n_rows = 1;
      task.y = got.y.data();
      multiply_panels(*row.set, task, 0, 16);
      for (size_t c = 0; c < 256; ++c) {
        // 6 * 2^126 is infinite, and infinity times 0 at another depth is NaN.
        const float weight =
            fp4_e2m1_to_float(static_cast<uint8_t>(d / 2)) * e8m0_to_float(static_cast<uint8_t>(c));
        const float expected = c < 253 ? weight + 0.0f : NAN;
        REQUIRE(are_same(&got.y[c], &expected, 1));
      }
    }
  }
}

TEST_CASE("the reference's float product agrees with double precision") {
  std::mt19937 random(10);
  for (const WeightFormat format : kFormats) {
    CAPTURE(weight_format_name(format));
    const TestMatrix matrix(make_layout(format, 37, 203, 48), random);
    TestRows rows(2, 203, 0, random);
    Output got(2, 37);
    run(kKernelSetRef, make_task(matrix, rows, got));
    for (size_t r = 0; r < 2; ++r) {
      for (size_t c = 0; c < 37; ++c) {
        double sum = 0.0, size = 0.0;
        for (size_t d = 0; d < 203; ++d) {
          const double product = static_cast<double>(matrix.weight(c, d)) * rows.x[r * 203 + d];
          sum += product;
          size += std::fabs(product);
        }
        REQUIRE(std::fabs(got.y[r * got.stride + c] - sum) <= 2e-6 * size);
      }
    }
  }
}

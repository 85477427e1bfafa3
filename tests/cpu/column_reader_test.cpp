// SPDX-License-Identifier: Apache-2.0
//
// Reading columns of packed matrices back.

#include "cpu/column_reader.h"

#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

TEST_CASE("a column comes back as its dequantised weights") {
  std::mt19937 random(61);
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kF16, WeightFormat::kFp8,
        WeightFormat::kInt8, WeightFormat::kInt4, WeightFormat::kMxFp4}) {
    for (const bool has_row_scale : {false, true}) {
      if (has_row_scale && format < WeightFormat::kInt8) continue;
      CAPTURE(weight_format_name(format), has_row_scale);
      const TestMatrix matrix(make_layout(format, 150, 205, 48, has_row_scale), random);
      for (const size_t column : {0u, 15u, 16u, 149u}) {
        GuardedArray<float> y(205);
        cpu::read_column(matrix.view(), column, y.data());
        for (size_t d = 0; d < 205; ++d) REQUIRE(y[d] == matrix.weight(column, d));
      }
    }
  }
}

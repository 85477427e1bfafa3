// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/panel_packer.h"

#include <cmath>
#include <cstring>
#include <string>

#include "tests/convert/stored_matrix.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

WeightLayout make_layout(WeightFormat format, uint32_t columns, uint32_t depth, uint32_t group) {
  WeightLayout layout;
  layout.format = format;
  layout.columns = columns;
  layout.depth = depth;
  layout.group = group;
  layout.scale_type = ScaleType::kBF16;
  return layout;
}

// A matrix quantised panel by panel into memory that was no zeros before.
std::vector<uint8_t> quantise_panels(const WeightLayout &layout, const std::vector<float> &weights,
                                     ErrorSums *sums) {
  Buffer matrix(layout.total_bytes(), "a matrix");
  PanelPacker packer;
  packer.prepare(layout);
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    const size_t first = panel * kPanelColumns;
    const size_t n = std::min<size_t>(kPanelColumns, layout.columns - first);
    *sums += packer.quantise(ScaleSearch::kSearch, weights.data() + first * layout.depth, n,
                             find_panel(layout, matrix.data(), panel));
  }
  return {matrix.data(), matrix.data() + layout.total_bytes()};
}

}  // namespace

TEST_CASE("a quantised panel has the codes and scales of its rows, and padding of zeros") {
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8}) {
    for (const auto &[rows, columns] : kAwkwardShapes) {
      INFO(weight_format_name(format) << " " << rows << "x" << columns);
      const WeightLayout layout =
          make_layout(format, static_cast<uint32_t>(rows), static_cast<uint32_t>(columns), 32);
      const std::vector<float> weights = StoredMatrix("F32", rows, columns).weights();
      ErrorSums sums;
      const std::vector<uint8_t> bytes = quantise_panels(layout, weights, &sums);
      Buffer aligned(bytes.size(), "a copy");
      std::memcpy(aligned.data(), bytes.data(), bytes.size());
      const PackedMatrix matrix{layout, aligned.data()};
      double error = 0, weight = 0;
      std::vector<int8_t> codes(columns);
      std::vector<float> scales(layout.scale_groups());
      for (uint64_t row = 0; row < rows; ++row) {
        const float *expected = weights.data() + row * columns;
        quantise_row(layout, ScaleSearch::kSearch, {expected, columns}, codes.data(),
                     scales.data());
        for (uint64_t i = 0; i < columns; ++i) {
          const float value = static_cast<float>(codes[i]) * scales[i / 32];
          REQUIRE(unpack_weight(matrix, row, i) == value);
          error += std::pow(static_cast<double>(expected[i]) - value, 2.0);
          weight += std::pow(expected[i], 2.0);
        }
      }
      CHECK(sums.error == Approx(error).epsilon(1e-9).margin(1e-12));
      CHECK(sums.weight == Approx(weight).epsilon(1e-9));
      for (uint64_t row = rows; row < layout.n_panels() * kPanelColumns; ++row) {
        for (uint64_t i = 0; i < columns; ++i) REQUIRE(unpack_weight(matrix, row, i) == 0.0f);
      }
    }
  }
}

TEST_CASE("a packer serves matrices of other layouts after its first") {
  const WeightLayout large = make_layout(WeightFormat::kInt8, 40, 300, 128);
  const WeightLayout small = make_layout(WeightFormat::kInt4, 5, 9, 32);
  const std::vector<float> weights = StoredMatrix("F32", 40, 300).weights();
  ErrorSums sums;
  const std::vector<uint8_t> expected = quantise_panels(small, weights, &sums);
  PanelPacker packer;
  packer.prepare(large);
  std::vector<uint8_t> target(large.total_bytes());
  packer.quantise(ScaleSearch::kSearch, weights.data(), 16, find_panel(large, target.data(), 0));
  packer.prepare(small);
  std::fill(target.begin(), target.end(), uint8_t{0});
  packer.quantise(ScaleSearch::kSearch, weights.data(), 5, find_panel(small, target.data(), 0));
  CHECK(std::memcmp(target.data(), expected.data(), small.total_bytes()) == 0);
}

}  // namespace colibri::test

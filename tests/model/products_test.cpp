// SPDX-License-Identifier: Apache-2.0
//
// Products of one input with matrices of different formats and groups give what each gives alone.

#include <cstring>

#include "lib/model/pass.h"
#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr uint32_t kRows = 5;
constexpr uint32_t kDepth = 96;

struct TestMatrix {
  WeightLayout layout;
  Buffer memory;
  PackedMatrix view() const { return {layout, memory.data()}; }
};

// Fills values from a small formula; scales are positive.
TestMatrix make_matrix(WeightFormat format, uint32_t columns, uint32_t group, bool has_row_scale) {
  TestMatrix matrix;
  matrix.layout = {format, columns, kDepth, group, has_row_scale};
  std::vector<uint8_t> values(size_t{columns} * kDepth * 4);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<uint8_t>((i * 37 + columns) & 0x3F);
  std::vector<float> scales(size_t{columns} * kDepth);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.01f * static_cast<float>(1 + i % 7);
  matrix.memory = Buffer(matrix.layout.total_bytes(), "a test matrix");
  pack_matrix(matrix.layout, {values.data(), scales.data()}, matrix.memory.data());
  return matrix;
}

}  // namespace

TEST_CASE("mixed formats and groups share one input and keep their own results") {
  Engine engine(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-sparse", {});
  ThreadPool threads(2);
  const std::unique_ptr<Backend> backend = cpu::make_cpu_backend(threads, "");
  DenseWeights weights;
  const Pass pass = {engine.config(),
                     weights,
                     engine.model().kv_layout(),
                     *backend,
                     engine.workspace(),
                     {},
                     {},
                     nullptr,
                     true,
                     1e-6f};
  std::vector<float> x(size_t{kRows} * kDepth);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<int>(i % 23) - 11) * 0.37f;
  const ProductInput input = {x.data(), kDepth, kRows, kDepth};

  std::vector<TestMatrix> matrices;
  matrices.push_back(make_matrix(WeightFormat::kInt4, 33, 32, false));
  matrices.push_back(make_matrix(WeightFormat::kF32, 17, 0, false));
  matrices.push_back(make_matrix(WeightFormat::kInt8, 20, kRowScaleActivationGroup, true));
  matrices.push_back(make_matrix(WeightFormat::kInt4, 16, 64, false));
  matrices.push_back(make_matrix(WeightFormat::kInt8, 5, 32, false));

  std::vector<PackedMatrix> views;
  for (const TestMatrix &matrix : matrices) views.push_back(matrix.view());
  std::vector<std::vector<float>> together(views.size());
  std::vector<Product> products;
  for (size_t i = 0; i < views.size(); ++i) {
    together[i].assign(size_t{kRows} * views[i].layout.columns, -7.0f);
    products.push_back({&views[i], together[i].data(), views[i].layout.columns, i == 4});
  }
  run_products(pass, input, products);
  for (size_t i = 0; i < views.size(); ++i) {
    std::vector<float> alone(together[i].size(), 9.0f);
    const Product product = {&views[i], alone.data(), views[i].layout.columns, i == 4};
    run_products(pass, input, {&product, 1});
    INFO("matrix " << i);
    CHECK(std::memcmp(alone.data(), together[i].data(), alone.size() * sizeof(float)) == 0);
  }
}

}  // namespace colibri::test

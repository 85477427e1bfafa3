// SPDX-License-Identifier: Apache-2.0
//
// The experts of a layer: equal to single operations of the reference, for any threads, formats and
// rows beside them.

#include "cpu/expert_stage.h"

#include <memory>

#include "cpu/cpu_backend.h"
#include "tests/cpu/backend_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::make_cpu_backend;

namespace {

// Experts of one layer and the rows that chose them.
struct Layer {
  static constexpr size_t kWidth = 96, kExpertWidth = 160, kExperts = 6, kTopK = 3;
  static constexpr size_t kBiases = 2 * kExpertWidth + kWidth;  // of one expert

  // `activation` clamped: experts have biases as well.
  Layer(WeightFormat format, size_t group, bool has_row_scale, size_t n_rows,
        Activation joined = {})
      : random(71),
        rows(n_rows, kWidth, format >= WeightFormat::kInt8 ? group : 0, random),
        activation(joined),
        biases(kExperts * kBiases) {
    fill_normal(biases, random);
    for (size_t e = 0; e < kExperts; ++e) {
      gates.push_back(std::make_unique<TestMatrix>(
          make_layout(format, kExpertWidth, kWidth, group, has_row_scale), random));
      ups.push_back(std::make_unique<TestMatrix>(
          make_layout(format, kExpertWidth, kWidth, group, has_row_scale), random));
      // The groups of the down matrices differ between experts.
      downs.push_back(std::make_unique<TestMatrix>(
          make_layout(format, kWidth, kExpertWidth, e % 2 == 0 ? group : 48, has_row_scale),
          random));
    }
    chosen.resize(n_rows * kTopK);
    for (size_t r = 0; r < n_rows; ++r) {
      for (size_t k = 0; k < kTopK; ++k) {
        chosen[r * kTopK + k] = static_cast<int32_t>((r * r + 2 * k) % kExperts);
      }
    }
  }

  ExpertView view(size_t e) const {
    ExpertView result = {gates[e]->view(), ups[e]->view(), downs[e]->view()};
    if (activation.kind == ActivationKind::kSilu) return result;
    result.gate_bias = biases.data() + e * kBiases;
    result.up_bias = result.gate_bias + kExpertWidth;
    result.down_bias = result.up_bias + kExpertWidth;
    return result;
  }

  // Outputs of rows first .. first + n - 1 as one batch, [n * K][D].
  Floats run(Backend &backend, Backend::Scratch &scratch, bool uses_integers, size_t first,
             size_t n) {
    std::vector<std::vector<int32_t>> of_rows(kExperts), of_outputs(kExperts);
    for (size_t i = 0; i < n * kTopK; ++i) {
      const size_t expert = static_cast<size_t>(chosen[first * kTopK + i]);
      of_rows[expert].push_back(static_cast<int32_t>(i / kTopK));
      of_outputs[expert].push_back(static_cast<int32_t>(i));
    }
    std::vector<ExpertTask> tasks;
    for (size_t e = 0; e < kExperts; ++e) {
      if (of_rows[e].empty()) continue;
      tasks.push_back({view(e), of_rows[e].data(), of_outputs[e].data(),
                       static_cast<uint32_t>(of_rows[e].size())});
    }
    Floats out(n * kTopK * kWidth);
    ExpertsArgs args;
    args.tasks = tasks;
    args.input = slice(rows.view(), first, n);
    args.uses_integers = uses_integers;
    args.activation = activation;
    args.out = out.data();
    args.out_stride = kWidth;
    backend.experts(args, scratch);
    return out;
  }

  std::mt19937 random;
  TestRows rows;
  Activation activation;
  GuardedArray<float> biases;
  std::vector<std::unique_ptr<TestMatrix>> gates, ups, downs;
  std::vector<int32_t> chosen;
};

// One expert for one row from single operations of the reference.
Floats run_one_expert(Layer &layer, size_t row, size_t rank, bool uses_integers) {
  ThreadPool threads(1);
  const auto backend = make_cpu_backend(threads, "ref");
  const auto scratch = backend->make_scratch(scratch_shape());
  const size_t expert = static_cast<size_t>(layer.chosen[row * Layer::kTopK + rank]);
  const size_t width = Layer::kExpertWidth;
  Floats gate(width), up(width), out(Layer::kWidth);
  const ActivationRows input = slice(layer.rows.view(), row, 1);
  LinearTask inputs[] = {linear_task(*layer.gates[expert], input, gate.data(), uses_integers),
                         linear_task(*layer.ups[expert], input, up.data(), uses_integers)};
  inputs[0].bias = layer.view(expert).gate_bias;
  inputs[1].bias = layer.view(expert).up_bias;
  backend->linear(inputs, *scratch);
  if (layer.activation.kind == ActivationKind::kSilu) {
    backend->silu({gate.data(), up.data(), gate.data(), width, 1, static_cast<uint32_t>(width)});
  } else {
    cpu::kKernelSetRef.clamped_swish_row({gate.data(), up.data(), width, layer.activation.limit,
                                          layer.activation.alpha, gate.data()});
  }
  std::vector<int8_t> q(width);
  Floats scales(width);
  std::vector<int32_t> sums(width);
  ActivationRows middle;
  middle.x = gate.data();
  middle.x_stride = width;
  middle.n_rows = 1;
  middle.depth = static_cast<uint32_t>(width);
  if (uses_integers) {
    middle.quantised = {q.data(), scales.data(), sums.data(),
                        width,    width,         layer.downs[expert]->layout.group};
    backend->quantise({gate.data(), width, 1, static_cast<uint32_t>(width), middle.quantised});
  }
  LinearTask down = linear_task(*layer.downs[expert], middle, out.data(), uses_integers);
  down.bias = layer.view(expert).down_bias;
  backend->linear({&down, 1}, *scratch);
  return out;
}

void check_experts(WeightFormat format, size_t group, bool has_row_scale, bool uses_integers,
                   Activation activation = {}) {
  CAPTURE(weight_format_name(format), group, has_row_scale, uses_integers);
  const size_t n_rows = 13;
  Layer layer(format, group, has_row_scale, n_rows, activation);
  const Floats all = run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
    return layer.run(backend, scratch, uses_integers, 0, n_rows);
  });
  const size_t row_floats = Layer::kTopK * Layer::kWidth;
  for (const size_t row : {0, 5, 12}) {
    const Floats alone = run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
      return layer.run(backend, scratch, uses_integers, row, 1);
    });
    REQUIRE(are_same(alone.data(), &all[row * row_floats], row_floats));
  }
  for (size_t rank = 0; rank < Layer::kTopK; ++rank) {
    const Floats single = run_one_expert(layer, 4, rank, uses_integers);
    REQUIRE(are_same(single.data(), &all[4 * row_floats + rank * Layer::kWidth], Layer::kWidth));
  }
}

// So many rows that neither all rows nor all columns of an expert fit into a worker's block.
void check_many_rows(WeightFormat format, size_t group, bool uses_integers,
                     Activation activation = {}) {
  CAPTURE(weight_format_name(format), group, uses_integers);
  const size_t n_rows = 700;
  Layer layer(format, group, false, n_rows, activation);
  ScratchShape shape = scratch_shape();
  shape.max_rows = n_rows;
  const Floats all = run_everywhere([&](Backend &backend, Backend::Scratch &) {
    const auto scratch = backend.make_scratch(shape);
    return layer.run(backend, *scratch, uses_integers, 0, n_rows);
  });
  const size_t row_floats = Layer::kTopK * Layer::kWidth;
  for (const size_t row : {0, 255, 256, 511, 512, 699}) {
    for (size_t rank = 0; rank < Layer::kTopK; ++rank) {
      const Floats single = run_one_expert(layer, row, rank, uses_integers);
      REQUIRE(
          are_same(single.data(), &all[row * row_floats + rank * Layer::kWidth], Layer::kWidth));
    }
  }
}

constexpr Activation kClamped = {ActivationKind::kClampedSwish, 0.7f, 1.702f};

}  // namespace

TEST_CASE("experts equal single operations, with any threads and any rows beside them") {
  check_experts(WeightFormat::kInt4, 32, false, true);
  check_experts(WeightFormat::kInt4, 96, false, true);
  check_experts(WeightFormat::kInt8, 64, true, true);
  check_experts(WeightFormat::kInt4, 32, false, false);
  check_experts(WeightFormat::kBF16, 0, false, false);
  check_experts(WeightFormat::kFp8, 128, false, false);
}

TEST_CASE("experts with many rows are computed in parts, and equal single operations") {
  check_many_rows(WeightFormat::kInt4, 64, true);
  check_many_rows(WeightFormat::kInt4, 256, true);
  check_many_rows(WeightFormat::kInt8, 48, true);
  check_many_rows(WeightFormat::kBF16, 0, false);
}

TEST_CASE("experts with biases and clamped activations equal single operations") {
  check_experts(WeightFormat::kInt4, 32, false, true, kClamped);
  check_experts(WeightFormat::kInt4, 32, false, false, kClamped);
  check_experts(WeightFormat::kBF16, 0, false, false, kClamped);
  check_many_rows(WeightFormat::kInt4, 64, true, kClamped);
  check_many_rows(WeightFormat::kBF16, 0, false, kClamped);
}

TEST_CASE("experts of MXFP4 equal single operations") {
  for (const Activation &activation : {Activation(), kClamped}) {
    check_experts(WeightFormat::kMxFp4, 32, false, true, activation);
    check_experts(WeightFormat::kMxFp4, 32, false, false, activation);
    check_many_rows(WeightFormat::kMxFp4, 32, true, activation);
  }
}

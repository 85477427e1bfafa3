// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: the same bits for any number of threads and any company in the batch, and
// operations that have no kernel of their own.

#include "cpu/cpu_backend.h"

#include <cmath>
#include <functional>
#include <numeric>

#include "lib/base/status.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::make_cpu_backend;

namespace {

constexpr uint32_t kThreads[] = {1, 2, 5};

using Floats = std::vector<float>;
using Operation = std::function<Floats(Backend &, Backend::Scratch &)>;

ScratchShape scratch_shape() {
  ScratchShape shape;
  shape.max_rows = 40;
  shape.n_heads = 20;
  shape.key_width = 48;
  shape.value_width = 32;
  shape.expert_width = 160;
  shape.n_experts_per_token = 4;
  shape.max_context = 1000;
  shape.n_experts = 32;
  return shape;
}

// Runs the operation with every kernel set and number of threads; all results must have the bits of
// the first.
Floats run_everywhere(const Operation &operation) {
  Floats first;
  for (const KernelRow &row : runnable_rows()) {
    for (const uint32_t n_threads : kThreads) {
      CAPTURE(row.name, n_threads);
      ThreadPool threads(n_threads);
      const auto backend = make_cpu_backend(threads, row.name);
      const auto scratch = backend->make_scratch(scratch_shape());
      const Floats result = operation(*backend, *scratch);
      if (first.empty()) first = result;
      REQUIRE(are_same(result.data(), first.data(), first.size()));
    }
  }
  return first;
}

LinearTask linear_task(const TestMatrix &matrix, const ActivationRows &rows, float *y,
                       bool uses_integers) {
  LinearTask task;
  task.matrix = matrix.view();
  task.input = rows;
  task.y = y;
  task.y_stride = matrix.layout.columns;
  task.uses_integers = uses_integers;
  return task;
}

// Rows first .. first + n - 1 alone.
ActivationRows slice(ActivationRows rows, size_t first, size_t n) {
  rows.x += first * rows.x_stride;
  rows.n_rows = static_cast<uint32_t>(n);
  QuantisedRows &quantised = rows.quantised;
  if (quantised.group == 0) return rows;
  quantised.q += first * quantised.q_stride;
  quantised.scales += first * quantised.group_stride;
  quantised.sums += first * quantised.group_stride;
  return rows;
}

// Experts of one layer and the rows that chose them.
struct Layer {
  static constexpr size_t kWidth = 96, kExpertWidth = 160, kExperts = 6, kTopK = 3;

  Layer(WeightFormat format, size_t group, bool has_row_scale, size_t n_rows)
      : random(71), rows(n_rows, kWidth, format >= WeightFormat::kInt8 ? group : 0, random) {
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
      tasks.push_back({{gates[e]->view(), ups[e]->view(), downs[e]->view()},
                       of_rows[e].data(),
                       of_outputs[e].data(),
                       static_cast<uint32_t>(of_rows[e].size())});
    }
    Floats out(n * kTopK * kWidth);
    ExpertsArgs args;
    args.tasks = tasks;
    args.input = slice(rows.view(), first, n);
    args.uses_integers = uses_integers;
    args.out = out.data();
    args.out_stride = kWidth;
    backend.experts(args, scratch);
    return out;
  }

  std::mt19937 random;
  TestRows rows;
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
  const LinearTask inputs[] = {linear_task(*layer.gates[expert], input, gate.data(), uses_integers),
                               linear_task(*layer.ups[expert], input, up.data(), uses_integers)};
  backend->linear(inputs, *scratch);
  backend->silu({gate.data(), up.data(), gate.data(), width, 1, static_cast<uint32_t>(width)});
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
  const LinearTask down[] = {linear_task(*layer.downs[expert], middle, out.data(), uses_integers)};
  backend->linear(down, *scratch);
  return out;
}

void check_experts(WeightFormat format, size_t group, bool has_row_scale, bool uses_integers) {
  CAPTURE(weight_format_name(format), group, has_row_scale, uses_integers);
  const size_t n_rows = 13;
  Layer layer(format, group, has_row_scale, n_rows);
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

}  // namespace

TEST_CASE("linear tasks give the same bits with any threads and any rows beside them") {
  std::mt19937 random(72);
  const TestMatrix a(make_layout(WeightFormat::kInt4, 300, 128, 64), random);
  const TestMatrix b(make_layout(WeightFormat::kBF16, 77, 128, 0), random);
  const TestMatrix c(make_layout(WeightFormat::kInt8, 20, 128, 64, true), random);
  TestRows rows(19, 128, 64, random);
  const auto run = [&](Backend &backend, Backend::Scratch &scratch, size_t first, size_t n) {
    Floats y(n * 397);
    const ActivationRows input = slice(rows.view(), first, n);
    const LinearTask tasks[] = {linear_task(a, input, y.data(), true),
                                linear_task(b, input, y.data() + n * 300, false),
                                linear_task(c, input, y.data() + n * 377, true)};
    backend.linear(tasks, scratch);
    return y;
  };
  const Floats all =
      run_everywhere([&](auto &backend, auto &scratch) { return run(backend, scratch, 0, 19); });
  for (const size_t row : {0, 7, 18}) {
    const Floats alone =
        run_everywhere([&](auto &backend, auto &scratch) { return run(backend, scratch, row, 1); });
    REQUIRE(are_same(&alone[0], &all[row * 300], 300));
    REQUIRE(are_same(&alone[300], &all[19 * 300 + row * 77], 77));
    REQUIRE(are_same(&alone[377], &all[19 * 377 + row * 20], 20));
  }
}

TEST_CASE("experts equal single operations, with any threads and any rows beside them") {
  check_experts(WeightFormat::kInt4, 32, false, true);
  check_experts(WeightFormat::kInt4, 96, false, true);
  check_experts(WeightFormat::kInt8, 64, true, true);
  check_experts(WeightFormat::kInt4, 32, false, false);
  check_experts(WeightFormat::kBF16, 0, false, false);
  check_experts(WeightFormat::kFp8, 128, false, false);
}

TEST_CASE("attention gives the same bits with any threads and any rows beside them") {
  std::mt19937 random(73);
  const size_t n_cached = 500;
  GuardedArray<float> queries(6 * 20 * 48), keys(n_cached * 48), values(n_cached * 32);
  fill_normal(queries, random);
  fill_normal(keys, random);
  fill_normal(values, random);
  std::vector<int32_t> positions(200);
  for (size_t i = 0; i < 200; ++i) positions[i] = static_cast<int32_t>(2 * i + i % 2);
  std::vector<AttentionRow> rows;
  for (const uint32_t n_keys : {1u, 64u, 200u, 500u, 333u, 77u}) {
    rows.push_back(
        {keys.data(), values.data(), n_keys == 200 ? positions.data() : nullptr, n_keys});
  }
  const auto run = [&](Backend &backend, Backend::Scratch &scratch, size_t first, size_t n) {
    Floats out(n * 20 * 32);
    AttentionArgs args;
    args.rows = std::span(rows).subspan(first, n);
    args.queries = queries.data() + first * 20 * 48;
    args.query_row_stride = 20 * 48;
    args.query_head_stride = 48;
    args.key_stride = 48;
    args.value_stride = 32;
    args.n_heads = 20;
    args.key_width = 48;
    args.value_width = 32;
    args.scale = 0.2f;
    args.out = out.data();
    args.out_row_stride = 20 * 32;
    args.out_head_stride = 32;
    backend.attention(args, scratch);
    return out;
  };
  const Floats all =
      run_everywhere([&](auto &backend, auto &scratch) { return run(backend, scratch, 0, 6); });
  for (size_t row = 0; row < 6; ++row) {
    const Floats alone =
        run_everywhere([&](auto &backend, auto &scratch) { return run(backend, scratch, row, 1); });
    REQUIRE(are_same(&alone[0], &all[row * 640], 640));
  }
}

TEST_CASE("index scores and their selection are the same with any threads") {
  std::mt19937 random(74);
  GuardedArray<float> queries(3 * 4 * 32), weights(3 * 4), panels(63 * 32 * 16);
  fill_normal(queries, random);
  fill_normal(weights, random);
  fill_normal(panels, random);
  const IndexRow rows[] = {{panels.data(), 1000}, {panels.data(), 30}, {panels.data(), 0}};
  const Floats result = run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
    Floats scores(3 * 1000, -5.0f);
    std::vector<int32_t> positions(3 * 50, -7);
    IndexScoresArgs args;
    args.rows = rows;
    args.queries = queries.data();
    args.weights = weights.data();
    args.weights_stride = 4;
    args.n_heads = 4;
    args.width = 32;
    args.scale = 0.1f;
    args.scores = scores.data();
    args.score_stride = 1000;
    backend.index_scores(args, scratch);
    SelectArgs select;
    select.rows = rows;
    select.scores = scores.data();
    select.score_stride = 1000;
    select.top_k = 50;
    select.positions = positions.data();
    backend.select(select, scratch);
    scores.insert(scores.end(), positions.begin(), positions.end());
    return scores;
  });
  REQUIRE(result[1000 + 30] == -5.0f);  // the second row has 30 keys
  REQUIRE(result[2000] == -5.0f);       // the third has none
  REQUIRE(std::is_sorted(&result[3000], &result[3050]));
  REQUIRE(result[3050] == -7.0f);  // 30 keys are fewer than top_k: skipped
}

TEST_CASE("rows are routed the same with any threads") {
  std::mt19937 random(75);
  GuardedArray<float> logits(40 * 32), bias(32);
  fill_normal(logits, random);
  fill_normal(bias, random, 0.1f);
  const Floats result = run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
    std::vector<int32_t> experts(40 * 4);
    Floats weights(40 * 4);
    RouteArgs args;
    args.logits = logits.data();
    args.bias = bias.data();
    args.n_rows = 40;
    args.n_experts = 32;
    args.top_k = 4;
    args.n_groups = 4;
    args.n_top_groups = 2;
    args.experts = experts.data();
    args.weights = weights.data();
    backend.route(args, scratch);
    weights.insert(weights.end(), experts.begin(), experts.end());
    return weights;
  });
  for (size_t r = 0; r < 40; ++r) {
    const float sum = std::accumulate(&result[4 * r], &result[4 * r + 4], 0.0f);
    REQUIRE(sum == Approx(1.0f));
    REQUIRE(std::is_sorted(&result[160 + 4 * r], &result[160 + 4 * r + 4]));
  }
}

TEST_CASE("rotation turns pairs, interleaved or in halves") {
  const float cosines[] = {0.0f, 1.0f, 0.5f, 0.25f};
  const float sines[] = {1.0f, 0.0f, 0.5f, 2.0f};
  const auto run = [&](bool is_interleaved) {
    return run_everywhere([&](Backend &backend, Backend::Scratch &) {
      Floats x(2 * 2 * 6);
      std::iota(x.begin(), x.end(), 1.0f);
      RopeArgs args;
      args.x = x.data() + 1;
      args.row_stride = 12;
      args.head_stride = 6;
      args.n_rows = 2;
      args.n_heads = 2;
      args.width = 4;
      args.is_interleaved = is_interleaved;
      args.cosines = cosines;
      args.sines = sines;
      backend.rope(args);
      return x;
    });
  };
  const Floats pairs = run(true);
  REQUIRE(Floats(pairs.begin(), pairs.begin() + 6) == Floats{1, -3, 2, 4, 5, 6});
  REQUIRE(Floats(pairs.begin() + 12, pairs.begin() + 18) ==
          Floats{13, -0.5f, 14.5f, -30, 36.25f, 18});
  const Floats halves = run(false);
  REQUIRE(Floats(halves.begin(), halves.begin() + 6) == Floats{1, -4, 3, 2, 5, 6});
}

TEST_CASE("embedding rows are columns of the table") {
  std::mt19937 random(76);
  const TestMatrix table(make_layout(WeightFormat::kInt8, 50, 40, 64, true), random);
  const int32_t ids[] = {49, 0, 16, 49};
  const Floats rows = run_everywhere([&](Backend &backend, Backend::Scratch &) {
    Floats y(4 * 40);
    backend.embed({table.view(), ids, 4, y.data(), 40});
    return y;
  });
  for (size_t r = 0; r < 4; ++r) {
    for (size_t d = 0; d < 40; ++d) {
      REQUIRE(rows[r * 40 + d] == table.weight(static_cast<size_t>(ids[r]), d));
    }
  }
}

TEST_CASE("row operations give the same bits with any threads") {
  std::mt19937 random(77);
  const uint32_t n_rows = 40, width = 2000;
  GuardedArray<float> x(n_rows * width), weight(width), bias(width);
  fill_normal(x, random);
  fill_normal(weight, random);
  fill_normal(bias, random);
  run_everywhere([&](Backend &backend, Backend::Scratch &) {
    const size_t size = n_rows * width;
    Floats y(5 * size);
    std::copy(x.begin(), x.end(), &y[3 * size]);
    std::copy(x.begin(), x.end(), &y[4 * size]);
    backend.rms_norm({x.data(), width, &y[0], width, n_rows, width, weight.data(), nullptr, 1e-5f});
    backend.layer_norm(
        {x.data(), width, &y[size], width, n_rows, width, weight.data(), bias.data(), 1e-5f});
    backend.silu({x.data(), x.data(), &y[2 * size], width, n_rows, width});
    backend.add({&y[3 * size], width, x.data(), width, n_rows, width});
    const Floats weights(n_rows * 1, 0.3f);
    backend.combine(
        {&y[4 * size], width, x.data(), weights.data(), x.data(), width, n_rows, 1, width});
    return y;
  });
}

TEST_CASE("scratch is as large as it says and refused if no machine has it") {
  ThreadPool threads(2);
  const auto backend = make_cpu_backend(threads, "");
  const ScratchShape shape = scratch_shape();
  REQUIRE(backend->scratch_bytes(shape) >= 2 * 64 * 48 * sizeof(float));
  ScratchShape absurd = shape;
  absurd.max_rows = absurd.expert_width = absurd.n_experts_per_token = UINT32_MAX;
  REQUIRE(backend->scratch_bytes(absurd) == UINT64_MAX);
  REQUIRE_THROWS_AS(backend->make_scratch(absurd), Error);
}

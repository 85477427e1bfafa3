// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: the same bits for any number of threads and any company in the batch, and
// operations that have no kernel of their own.

#include "cpu/cpu_backend.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "lib/base/number_formats.h"
#include "lib/base/status.h"
#include "tests/cpu/backend_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::make_cpu_backend;

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
        {keys.data(), values.data(), n_keys == 200 ? positions.data() : nullptr, 0, n_keys});
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

TEST_CASE("rows are stored in the slot's format with any threads") {
  std::mt19937 random(78);
  const size_t n_rows = 30, width = 20, x_stride = 70, head_stride = 200;
  GuardedArray<float> x((n_rows - 1) * x_stride + 3 * width);
  fill_normal(x, random);
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kF16}) {
    const size_t bytes = kv_type_bytes(type);
    const auto run = [&](Backend &backend, Backend::Scratch &) {
      const size_t row_bytes = (2 * head_stride + width) * bytes;
      GuardedArray<uint8_t> slots(n_rows * row_bytes);
      std::vector<void *> places;
      for (size_t r = 0; r < n_rows; ++r) places.push_back(slots.data() + r * row_bytes);
      StoreArgs args;
      args.x = x.data();
      args.x_stride = x_stride;
      args.n_rows = n_rows;
      args.n_heads = 3;
      args.width = width;
      args.type = type;
      args.destinations = places;
      args.head_stride = head_stride;
      backend.store(args);
      Floats stored;
      for (size_t r = 0; r < n_rows; ++r) {
        for (size_t i = 0; i < 2 * head_stride + width; ++i) {
          const bool is_piece = i % head_stride < width;
          const uint8_t *at = slots.data() + r * row_bytes + i * bytes;
          uint16_t half = 0;
          float value = 0.0f;
          std::memcpy(&half, at, 2);
          if (type == KvType::kF32) std::memcpy(&value, at, 4);
          if (type == KvType::kBF16) value = bf16_to_float(half);
          if (type == KvType::kF16) value = f16_to_float(half);
          if (is_piece) stored.push_back(value);
          if (!is_piece) REQUIRE(slots.is_untouched(r * row_bytes + i * bytes));
        }
      }
      return stored;
    };
    const Floats stored = run_everywhere(run);
    for (size_t r = 0; r < n_rows; ++r) {
      for (size_t i = 0; i < 3 * width; ++i) {
        float expected = x[r * x_stride + i];
        if (type == KvType::kBF16) expected = bf16_to_float(float_to_bf16(expected));
        if (type == KvType::kF16) expected = f16_to_float(float_to_f16(expected));
        REQUIRE(stored[r * 3 * width + i] == expected);
      }
    }
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
  const auto kind =
      GENERATE(RouterKind::kSigmoid, RouterKind::kSoftmax, RouterKind::kSoftmaxOfChosen);
  CAPTURE(router_kind_name(kind));
  std::mt19937 random(75);
  GuardedArray<float> logits(40 * 32), bias(32);
  fill_normal(logits, random);
  fill_normal(bias, random, 0.1f);
  const Floats result = run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
    std::vector<int32_t> experts(40 * 4);
    Floats weights(40 * 4);
    RouteArgs args;
    args.kind = kind;
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

TEST_CASE("a linear task adds its bias to the finished sum") {
  std::mt19937 random(78);
  TestRows rows(5, 64, 32, random);
  GuardedArray<float> bias(77);
  fill_normal(bias, random);
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kBF16}) {
    const TestMatrix matrix(make_layout(format, 77, 64, 32), random);
    const bool uses_integers = format == WeightFormat::kInt4;
    const auto run = [&](const float *added) {
      return run_everywhere([&](Backend &backend, Backend::Scratch &scratch) {
        Floats y(5 * 77);
        LinearTask task = linear_task(matrix, rows.view(), y.data(), uses_integers);
        task.bias = added;
        backend.linear({&task, 1}, scratch);
        return y;
      });
    };
    Floats expected = run(nullptr);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += bias[i % 77];
    REQUIRE(are_same(run(bias.data()).data(), expected.data(), expected.size()));
  }
}

TEST_CASE("a gated shared part is weighed with the sigmoid of its logit") {
  const float out[] = {1.0f, 2.0f, 3.0f, 4.0f}, shared[] = {8.0f, 16.0f, 8.0f, 16.0f};
  const float weights[] = {1.0f, 1.0f}, logits[] = {0.0f, -1000.0f};
  const Floats got = run_everywhere([&](Backend &backend, Backend::Scratch &) {
    Floats x(4, 100.0f);
    CombineArgs args;
    args.x = x.data();
    args.x_stride = 2;
    args.expert_out = out;
    args.weights = weights;
    args.shared = shared;
    args.shared_stride = 2;
    args.shared_logits = logits;
    args.n_rows = 2;
    args.top_k = 1;
    args.width = 2;
    backend.combine(args);
    return x;
  });
  REQUIRE(got == Floats{105.0f, 110.0f, 103.0f, 104.0f});
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
    backend.combine({&y[4 * size], width, x.data(), weights.data(), x.data(), width, nullptr,
                     n_rows, 1, width});
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

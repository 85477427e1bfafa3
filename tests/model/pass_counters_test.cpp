// SPDX-License-Identifier: Apache-2.0
//
// The counters of passes against what layouts, routes and positions say.

#include "lib/model/pass_counters.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "lib/model/dense_weights.h"
#include "lib/model/layer_spec.h"
#include "lib/residency/weight_packing.h"
#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// What one pass should have counted, from the weights, the routes it took and its positions.
class Expectation final : public ForwardObserver {
 public:
  Expectation(const Engine &engine, bool uses_integers)
      : engine_(engine), uses_integers_(uses_integers), layers_(describe_layers(engine.config())) {
    ThreadPool threads(1);
    weights_.load(engine.snapshot(), threads, nullptr);
  }

  // A pass over positions [first, last), all of which ask for logits.
  void add_pass(uint32_t first, uint32_t last) {
    const uint32_t n_rows = last - first;
    const WeightLayout &embedding = weights_.embedding.layout;
    totals.dense_bytes += n_rows * (embedding.panel_bytes() + embedding.scale_panel_bytes());
    add(weights_.head, n_rows);
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      add_layer(weights_.layers[layer], layers_[layer], n_rows);
      for (uint32_t position = first; position < last; ++position) {
        add_keys(layers_[layer], position + 1);
      }
    }
  }

  void on_hidden(int32_t, std::span<const ForwardRow>, const float *) override {}
  void on_select(uint32_t, std::span<const ForwardRow>, const int32_t *) override {}
  void on_route(uint32_t layer, std::span<const ForwardRow> rows, const int32_t *experts,
                const float *) override {
    const size_t n = rows.size() * engine_.config().n_experts_per_token;
    const std::set<int32_t> distinct(experts, experts + n);
    totals.n_experts += distinct.size();
    totals.n_expert_rows += n;
    for (const int32_t expert : distinct) {
      for (const PackedMatrix &matrix : expert_matrices(layer, expert)) {
        totals.expert_bytes += matrix.layout.total_bytes();
        const auto rows_of_expert = static_cast<uint32_t>(std::count(experts, experts + n, expert));
        totals.n_expert_macs += add_macs(matrix.layout, rows_of_expert);
      }
    }
  }

  PassCounters totals;

 private:
  std::vector<PackedMatrix> expert_matrices(uint32_t layer, int32_t expert) const {
    const ExpertSource &source =
        engine_.snapshot().sources().layers[layer].experts[static_cast<size_t>(expert)];
    return {{packed_layout(source.gate), nullptr},
            {packed_layout(source.up), nullptr},
            {packed_layout(source.down), nullptr}};
  }

  // Returns what it has added.
  uint64_t add_macs(const WeightLayout &layout, uint32_t n_rows) {
    if (!uses_integers_ || !layout.is_integer()) return 0;
    const uint64_t macs = uint64_t{layout.columns} * layout.depth * n_rows;
    totals.n_integer_macs += macs;
    return macs;
  }

  void add(const PackedMatrix &matrix, uint32_t n_rows) {
    totals.dense_bytes += matrix.layout.total_bytes();
    add_macs(matrix.layout, n_rows);
  }

  void add_layer(const LayerWeights &weights, const LayerSpec &spec, uint32_t n_rows) {
    for (const PackedMatrix *matrix :
         {&weights.query_a, &weights.query_b, &weights.kv_a, &weights.output, &weights.dense_gate,
          &weights.dense_up, &weights.dense_down}) {
      add(*matrix, n_rows);
    }
    for (const PackedMatrix &head : weights.key_up) add(head, n_rows);
    for (const PackedMatrix &head : weights.value_up) add(head, n_rows);
    if (spec.indexer == IndexerKind::kFull) {
      add(weights.index_query, n_rows);
      add(weights.index_key, n_rows);
      totals.dense_bytes += weights.index_weights.layout.total_bytes();
    }
    if (spec.feed_forward == FeedForwardKind::kMoe) {
      totals.dense_bytes += weights.router.layout.total_bytes();
    }
  }

  void add_keys(const LayerSpec &spec, uint32_t n_seen) {
    const ModelConfig &config = engine_.config();
    const bool selects = config.index_top_k > 0 && n_seen > config.index_top_k;
    const uint64_t n_attended = selects ? config.index_top_k : n_seen;
    totals.kv_bytes += n_attended * (config.kv_latent + config.rotary.width) * sizeof(float);
    if (selects && spec.indexer == IndexerKind::kFull) {
      totals.kv_bytes += uint64_t{n_seen} * config.index_width * sizeof(float);
    }
  }

  const Engine &engine_;
  const bool uses_integers_;
  const std::vector<LayerSpec> layers_;
  DenseWeights weights_;
};

// Except for the time.
void check_equal(const PassCounters &counted, const PassCounters &expected) {
  CHECK(counted.dense_bytes == expected.dense_bytes);
  CHECK(counted.expert_bytes == expected.expert_bytes);
  CHECK(counted.kv_bytes == expected.kv_bytes);
  CHECK(counted.n_experts == expected.n_experts);
  CHECK(counted.n_expert_rows == expected.n_expert_rows);
  CHECK(counted.n_integer_macs == expected.n_integer_macs);
  CHECK(counted.n_expert_macs == expected.n_expert_macs);
}

std::vector<int32_t> make_tokens(size_t n) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 37 + 11) % 200));
  return tokens;
}

}  // namespace

TEST_CASE("passes count the bytes and multiply-adds that layouts, routes and positions imply") {
  for (const char *name : {"/glm_moe_dsa-int4g64", "/glm_moe_dsa-sparse", "/glm_moe_dsa-int8row"}) {
    for (const ActivationMode mode : {ActivationMode::kInteger, ActivationMode::kFloat}) {
      INFO(name << (mode == ActivationMode::kFloat ? " float" : " integer"));
      EngineOptions options;
      options.activations = mode;
      Engine engine(std::string(COLIBRI_TEST_DATA) + name, options);
      Expectation expected(engine, mode == ActivationMode::kInteger);
      check_equal(engine.model().counters(), PassCounters());
      engine.run(make_tokens(60), 0, 0, &expected);
      expected.add_pass(0, 60);
      check_equal(engine.model().counters(), expected.totals);
      engine.run({5}, 60, 0, &expected);
      expected.add_pass(60, 61);
      check_equal(engine.model().counters(), expected.totals);
      CHECK(expected.totals.n_experts > 0);
      CHECK(expected.totals.kv_bytes > 0);
    }
  }
}

TEST_CASE("passes time their experts, whatever the activations, and no more than the pass") {
  using Clock = std::chrono::steady_clock;
  for (const ActivationMode mode : {ActivationMode::kInteger, ActivationMode::kFloat}) {
    EngineOptions options;
    options.activations = mode;
    Engine engine(std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-int4g64", options);
    CHECK(engine.model().counters().expert_ns == 0);
    const Clock::time_point start = Clock::now();
    engine.run(make_tokens(20), 0, 0, nullptr);
    const std::chrono::nanoseconds passed = Clock::now() - start;
    const uint64_t of_prompt = engine.model().counters().expert_ns;
    CHECK(of_prompt > 0);
    CHECK(of_prompt <= static_cast<uint64_t>(passed.count()));
    engine.run({5}, 20, 0, nullptr);
    CHECK(engine.model().counters().expert_ns > of_prompt);
  }
}

TEST_CASE("passes of several workspaces add up") {
  PassTotals totals;
  const PassCounters pass = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto add = [&] {
    for (int i = 0; i < 1000; ++i) totals.add(pass);
  };
  std::thread other(add);
  add();
  other.join();
  const PassCounters sum = totals.read();
  check_equal(sum, {2000, 4000, 6000, 8000, 10000, 12000, 14000, 16000});
  CHECK(sum.expert_ns == 16000);
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/golden/golden_checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/golden/engine.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr float kRouterWeightTolerance = 2e-5f;

float largest_difference(const std::vector<float> &a, const std::vector<float> &b) {
  REQUIRE(a.size() == b.size());
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const float difference = std::fabs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN counts as largest
  }
  return largest;
}

// Collects what a pass chose, row after row, over several calls of forward().
class Recorder : public ForwardObserver {
 public:
  explicit Recorder(const ModelConfig &config) : config_(config) {}

  void on_hidden(int32_t layer, std::span<const ForwardRow> rows, const float *values) override {
    append(&hidden[layer], values, rows.size() * config_.width);
  }
  void on_route(uint32_t layer, std::span<const ForwardRow> rows, const int32_t *experts,
                const float *weights) override {
    append(&route_ids[layer], experts, rows.size() * config_.n_experts_per_token);
    append(&route_weights[layer], weights, rows.size() * config_.n_experts_per_token);
  }
  void on_select(uint32_t layer, std::span<const ForwardRow> rows,
                 const int32_t *positions) override {
    append(&selected[layer], positions, rows.size() * config_.index_top_k);
  }

  std::map<int32_t, std::vector<float>> hidden;
  std::map<uint32_t, std::vector<int32_t>> route_ids, selected;
  std::map<uint32_t, std::vector<float>> route_weights;

 private:
  template <typename T>
  static void append(std::vector<T> *target, const T *values, size_t n) {
    target->insert(target->end(), values, values + n);
  }
  const ModelConfig &config_;
};

// The reference lists experts in no particular order.
void check_routes(const GoldenCase &golden, int prompt, const Recorder &recorder,
                  const ModelConfig &config) {
  const size_t k = config.n_experts_per_token;
  for (const auto &[layer, ids] : recorder.route_ids) {
    const std::string name = GoldenCase::key(prompt, "layer." + std::to_string(layer) + ".router_");
    const std::vector<int32_t> expected_ids = golden.ids(name + "ids");
    const std::vector<float> expected_weights = golden.floats(name + "weights");
    REQUIRE(ids.size() == expected_ids.size());
    for (size_t row = 0; row < ids.size() / k; ++row) {
      std::map<int32_t, float> expected;
      for (size_t i = 0; i < k; ++i)
        expected[expected_ids[row * k + i]] = expected_weights[row * k + i];
      for (size_t i = 0; i < k; ++i) {
        INFO("layer " << layer << " row " << row);
        REQUIRE(expected.count(ids[row * k + i]) == 1);
        CHECK(std::fabs(expected[ids[row * k + i]] -
                        recorder.route_weights.at(layer)[row * k + i]) <= kRouterWeightTolerance);
      }
    }
  }
}

// Rows that see no more than top_k positions select everything; the reference lists it, padded with
// -1.
size_t check_selections(const GoldenCase &golden, int prompt, const Recorder &recorder,
                        const ModelConfig &config) {
  const size_t k = config.index_top_k;
  size_t n_checked = 0;
  for (const auto &[layer, positions] : recorder.selected) {
    const std::string name =
        GoldenCase::key(prompt, "layer." + std::to_string(layer) + ".selected");
    if (!golden.has(name)) continue;
    const std::vector<int32_t> expected = golden.ids(name);
    REQUIRE(positions.size() == expected.size());
    for (size_t row = k; row < positions.size() / k; ++row) {
      INFO("layer " << layer << " row " << row);
      CHECK(std::equal(positions.begin() + static_cast<std::ptrdiff_t>(row * k),
                       positions.begin() + static_cast<std::ptrdiff_t>((row + 1) * k),
                       expected.begin() + static_cast<std::ptrdiff_t>(row * k)));
      ++n_checked;
    }
  }
  return n_checked;
}

}  // namespace

void check_passes(const GoldenCase &golden, const std::string &path) {
  for (const std::string &kernel_set : runnable_kernel_sets()) {
    EngineOptions options;
    options.kernel_set = kernel_set;
    options.n_threads = 2;
    Engine engine(path, options);
    const uint32_t top_k = engine.config().index_top_k;
    const bool is_sparse = top_k > 0 && top_k < 97;
    size_t n_selections = 0;
    for (int i = 0; i < GoldenCase::kPrompts; ++i) {
      INFO(golden.name() << " from " << path << " " << kernel_set << " prompt " << i);
      Recorder recorder(engine.config());
      const std::vector<float> logits = engine.run(golden.prompt(i), 0, 0, &recorder);
      CHECK(largest_difference(logits, golden.floats(GoldenCase::key(i, "logits"))) <=
            golden.logits_tolerance());
      CHECK(recorder.route_ids.size() > 0);
      check_routes(golden, i, recorder, engine.config());
      n_selections += check_selections(golden, i, recorder, engine.config());
    }
    INFO(golden.name() << " from " << path << " " << kernel_set);
    CHECK((n_selections > 0) == is_sparse);
  }
}

void check_hidden(const GoldenCase &golden, const std::string &path) {
  Engine engine(path, {});
  Recorder recorder(engine.config());
  engine.run(golden.prompt(2), 0, 0, &recorder);
  const std::vector<float> expected = golden.floats("prompt.2.hidden");
  const size_t layer_floats = golden.prompt(2).size() * engine.config().width;
  REQUIRE(expected.size() == layer_floats * (engine.config().n_layers + 1));
  const bool is_plain =
      golden.name() != "glm_moe_dsa-int4g64" && golden.name() != "glm_moe_dsa-int4row" &&
      golden.name() != "glm_moe_dsa-int8row" && golden.name() != "glm_moe_dsa-fp8";
  for (uint32_t layer = 0; layer <= engine.config().n_layers; ++layer) {
    INFO(golden.name() << " from " << path << " after layer " << static_cast<int>(layer) - 1);
    const auto first = expected.begin() + static_cast<std::ptrdiff_t>(layer * layer_floats);
    const std::vector<float> part(first, first + static_cast<std::ptrdiff_t>(layer_floats));
    const std::vector<float> &actual = recorder.hidden.at(static_cast<int32_t>(layer) - 1);
    CHECK(largest_difference(actual, part) <= 1e-3f);
    if (layer == 0 && is_plain)
      CHECK(std::memcmp(actual.data(), part.data(), part.size() * sizeof(float)) == 0);
  }
}

void check_continuations(const GoldenCase &golden, const std::string &path) {
  for (const std::string &kernel_set : runnable_kernel_sets()) {
    EngineOptions options;
    options.kernel_set = kernel_set;
    Engine engine(path, options);
    for (int i = 0; i < GoldenCase::kPrompts; ++i) {
      INFO(golden.name() << " from " << path << " " << kernel_set << " prompt " << i);
      const std::vector<int32_t> expected = golden.ids(GoldenCase::key(i, "greedy"));
      CHECK(engine.generate(golden.prompt(i), expected.size()) == expected);
    }
  }
}

void check_latent_eps(const GoldenCase &golden, const std::string &path) {
  if (!golden.has("prompt.2.logits_latent_eps")) return;
  EngineOptions options;
  options.latent_norm_eps = 0;
  Engine engine(path, options);
  INFO(golden.name() << " from " << path);
  const std::vector<float> logits = engine.run(golden.prompt(2), 0, 0);
  CHECK(largest_difference(logits, golden.floats("prompt.2.logits_latent_eps")) <=
        golden.logits_tolerance());
}

}  // namespace colibri::test

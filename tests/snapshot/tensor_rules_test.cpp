// SPDX-License-Identifier: Apache-2.0

#include "lib/snapshot/tensor_rules.h"

#include <set>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// Layer 0 dense with its own index, layer 1 with experts and a shared index.
ModelConfig two_layers() {
  ModelConfig config;
  config.n_layers = 2;
  config.n_experts = 4;
  config.index_top_k = 2;
  config.shared_width = 6;
  config.feed_forward_kinds = {FeedForwardKind::kDense, FeedForwardKind::kMoe};
  config.indexer_kinds = {IndexerKind::kFull, IndexerKind::kShared};
  return config;
}

}  // namespace

TEST_CASE("names of layers and experts are spelled as checkpoints spell them") {
  CHECK(layer_prefix(7) == "model.layers.7.");
  CHECK(expert_name(7, 12) == "model.layers.7.mlp.experts.12");
  CHECK(expert_matrix_name(7, 12, expert_rules()[0]) ==
        "model.layers.7.mlp.experts.12.gate_proj.weight");
  CHECK(expert_matrix_name(0, 0, expert_rules()[2]) ==
        "model.layers.0.mlp.experts.0.down_proj.weight");
}

TEST_CASE("a name is taken apart into layer and expert") {
  const auto place = [](std::string_view name) { return parse_tensor_name(name); };
  CHECK_FALSE(place("lm_head.weight"));
  CHECK_FALSE(place("model.layers.x.weight"));
  CHECK_FALSE(place("model.layers.02.weight"));
  CHECK_FALSE(place("model.layers.7"));
  CHECK_FALSE(place("model.layers.99999999999.x"));
  REQUIRE(place("model.layers.7.mlp.gate.weight"));
  CHECK(place("model.layers.7.mlp.gate.weight")->layer == 7);
  CHECK_FALSE(place("model.layers.7.mlp.gate.weight")->expert);
  CHECK(place("model.layers.7.mlp.experts.3.up_proj.weight")->expert == 3u);
  CHECK(place("model.layers.7.mlp.experts.3")->expert == 3u);
  CHECK_FALSE(place("model.layers.7.mlp.experts.03")->expert);
  CHECK_FALSE(place("model.layers.7.mlp.experts.3x")->expert);
  CHECK_FALSE(place("model.layers.7.mlp.experts.gate_up_proj")->expert);
  CHECK_FALSE(place("model.layers.7.mlp.experts.")->expert);
}

TEST_CASE("parts of a layer apply by its kinds") {
  ModelConfig config = two_layers();
  for (const uint32_t layer : {0u, 1u}) {
    const bool is_moe = layer == 1;
    CHECK(applies(LayerPart::kEvery, config, layer));
    CHECK(applies(LayerPart::kDense, config, layer) == !is_moe);
    CHECK(applies(LayerPart::kMoe, config, layer) == is_moe);
    CHECK(applies(LayerPart::kShared, config, layer) == is_moe);
    CHECK(applies(LayerPart::kFullIndexer, config, layer) == !is_moe);
    CHECK(count_experts(config, layer) == (is_moe ? 4u : 0u));
  }
  config.shared_width = 0;
  CHECK_FALSE(applies(LayerPart::kShared, config, 1));
}

TEST_CASE("no two rules that apply together have one name or one field") {
  const ModelConfig config = two_layers();
  for (const uint32_t layer : {0u, 1u}) {
    std::set<std::string> names;
    LayerSources sources;
    std::set<const WeightSource *> fields;
    size_t n_rules = 0;
    for (const TensorRule &rule : layer_rules()) {
      if (!applies(rule.part, config, layer)) continue;
      ++n_rules;
      names.insert(rule.suffix);
      fields.insert(&(sources.*rule.field));
      CHECK((rule.columns == nullptr) == (rule.form == TensorForm::kVector));
    }
    CHECK(n_rules > 10);
    CHECK(names.size() == n_rules);
    CHECK(fields.size() == n_rules);
  }
}

}  // namespace colibri::test

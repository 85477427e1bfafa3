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

bool has_rule(const ModelConfig &config, uint32_t layer, const std::string &suffix) {
  for (const TensorRule &rule : layer_rules()) {
    if (!rule.applies(config, layer)) continue;
    if (tensor_name(NameTable(), layer, rule) == layer_prefix(layer) + suffix) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("names of layers and experts are spelled as checkpoints spell them") {
  CHECK(layer_prefix(7) == "model.layers.7.");
  CHECK(expert_name(NameTable(), 7, 12) == "model.layers.7.mlp.experts.12");
  CHECK(expert_matrix_name(NameTable(), 7, 12, expert_rules()[0]) ==
        "model.layers.7.mlp.experts.12.gate_proj.weight");
  CHECK(expert_matrix_name(NameTable(), 0, 0, expert_rules()[2]) ==
        "model.layers.0.mlp.experts.0.down_proj.weight");
}

TEST_CASE("a name is taken apart into layer and expert") {
  const auto place = [](std::string_view name) { return parse_tensor_name(NameTable(), name); };
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

TEST_CASE("tensors of all experts are known by their names, those of shared experts are not") {
  const auto is_fused = [](const std::string &name) {
    return parse_tensor_name(NameTable(), "model.layers.7." + name)->is_fused;
  };
  for (const char *name : {"gate_up_proj", "down_proj", "gate_up_proj_bias", "down_proj_bias",
                           "gate_up_proj_blocks", "down_proj_scales"}) {
    CHECK(is_fused("mlp.experts." + std::string(name)));
  }
  for (const char *name : {"mlp.experts.gate_up_projx", "mlp.experts.3.down_proj.weight",
                           "mlp.shared_experts.down_proj.weight", "mlp.gate.weight"}) {
    CHECK_FALSE(is_fused(name));
  }
}

TEST_CASE("a spelling moves experts and router to other names") {
  const NameTable &names = find_family("mixtral")->names[0];
  CHECK(expert_matrix_name(names, 7, 12, expert_rules()[2]) ==
        "model.layers.7.block_sparse_moe.experts.12.w2.weight");
  CHECK(expert_matrix_name(names, 7, 12, expert_rules()[1]) ==
        "model.layers.7.block_sparse_moe.experts.12.w3.weight");
  CHECK(parse_tensor_name(names, "model.layers.7.block_sparse_moe.experts.3.w1.weight")->expert ==
        3u);
  CHECK_FALSE(parse_tensor_name(names, "model.layers.7.mlp.experts.3.w1.weight")->expert);
}

TEST_CASE("rules apply by the kinds of a layer") {
  ModelConfig config = two_layers();
  for (const uint32_t layer : {0u, 1u}) {
    const bool is_moe = layer == 1;
    CHECK(has_rule(config, layer, "mlp.gate_proj.weight") == !is_moe);
    CHECK(has_rule(config, layer, "mlp.gate.weight") == is_moe);
    CHECK(has_rule(config, layer, "mlp.gate.e_score_correction_bias") == is_moe);
    CHECK(has_rule(config, layer, "mlp.shared_experts.up_proj.weight") == is_moe);
    CHECK(has_rule(config, layer, "self_attn.indexer.wk.weight") == !is_moe);
    CHECK(has_rule(config, layer, "self_attn.q_proj.weight"));
    CHECK_FALSE(has_rule(config, layer, "self_attn.q_b_proj.weight"));
    CHECK_FALSE(has_rule(config, layer, "self_attn.k_proj.weight"));
    CHECK(count_experts(config, layer) == (is_moe ? 4u : 0u));
  }
  config.shared_width = 0;
  CHECK_FALSE(has_rule(config, 1, "mlp.shared_experts.up_proj.weight"));
  config.router = RouterKind::kSoftmax;
  CHECK_FALSE(has_rule(config, 1, "mlp.gate.e_score_correction_bias"));
  config.query_latent = 8;
  CHECK(has_rule(config, 1, "self_attn.q_b_proj.weight"));
  CHECK_FALSE(has_rule(config, 1, "self_attn.q_proj.weight"));
}

TEST_CASE("no two rules that apply together have one name or one field") {
  const ModelConfig config = two_layers();
  for (const uint32_t layer : {0u, 1u}) {
    std::set<std::string> names;
    LayerSources sources;
    std::set<const WeightSource *> fields;
    size_t n_rules = 0;
    for (const TensorRule &rule : layer_rules()) {
      if (!rule.applies(config, layer)) continue;
      ++n_rules;
      names.insert(tensor_name(NameTable(), layer, rule));
      fields.insert(&(sources.*rule.field));
      CHECK((rule.columns == nullptr) == (rule.form == TensorForm::kVector));
    }
    CHECK(n_rules > 10);
    CHECK(names.size() == n_rules);
    CHECK(fields.size() == n_rules);
  }
}

}  // namespace colibri::test

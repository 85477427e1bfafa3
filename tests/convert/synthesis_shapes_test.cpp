// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/synthesis_shapes.h"

#include "lib/snapshot/json.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

constexpr SynthesisChoices kChoices = {6, 0.5, 0.4, 1};

ModelConfig config_of(const std::string &name) {
  return synthesis_config(synthesis_config_text(find_synthesis_shape(name), kChoices));
}

// Weights of the attention matrices of one layer.
uint64_t count_attention(const ModelConfig &c) {
  const uint64_t heads = c.n_heads;
  return uint64_t{c.query_latent} * (c.width + heads * (c.nope_width + c.rotary.width)) +
         uint64_t{c.width} * (c.kv_latent + c.rotary.width) +
         heads * (c.nope_width + c.value_width) * c.kv_latent +
         uint64_t{c.width} * heads * c.value_width;
}

// Queries and output have n_heads * head_width rows, keys and values n_kv_heads * head_width.
uint64_t count_grouped_attention(uint64_t width, uint64_t n_heads, uint64_t n_kv_heads,
                                 uint64_t head_width) {
  return 2 * width * (n_heads + n_kv_heads) * head_width;
}

TEST_CASE("experts, router and vocabulary have the published sizes") {
  struct Published {
    const char *name;
    uint32_t width, expert_width, n_experts, n_experts_per_token, n_shared, vocabulary;
  };
  const Published published[] = {{"qwen3-30b", 2048, 768, 128, 8, 0, 151936},
                                 {"glm-5.2", 6144, 2048, 256, 8, 1, 154880},
                                 {"mixtral-8x7b", 4096, 14336, 8, 2, 0, 32000},
                                 {"colibri-tiny", 192, 64, 32, 4, 1, 2048}};
  for (const Published &model : published) {
    INFO(model.name);
    const ModelConfig config = config_of(model.name);
    CHECK(config.width == model.width);
    CHECK(config.expert_width == model.expert_width);
    CHECK(config.n_experts == model.n_experts);
    CHECK(config.n_experts_per_token == model.n_experts_per_token);
    CHECK(config.shared_width == model.n_shared * model.expert_width);
    CHECK(config.vocabulary_size == model.vocabulary);
    CHECK(config.n_layers == kChoices.n_layers);
    for (const FeedForwardKind kind : config.feed_forward_kinds) {
      CHECK(kind == FeedForwardKind::kMoe);
    }
    CHECK(config.stop_ids.empty());
    CHECK(synthesis_shapes().find(model.name) != std::string::npos);
  }
}

TEST_CASE("attention has about as many weights as the original's") {
  const auto ratio = [](const char *name, uint64_t original) {
    return static_cast<double>(count_attention(config_of(name))) / static_cast<double>(original);
  };
  CHECK(count_attention(config_of("glm-5.2")) == 165'019'648);
  CHECK(ratio("qwen3-30b", count_grouped_attention(2048, 32, 4, 128)) == Approx(1.0).margin(0.01));
  CHECK(ratio("mixtral-8x7b", count_grouped_attention(4096, 32, 8, 128)) ==
        Approx(1.0).margin(0.01));
}

TEST_CASE("every fourth layer of glm-5.2 has an indexer, and only the first of shapes without") {
  const auto kinds = [](const char *name) {
    std::string letters;
    for (const IndexerKind kind : config_of(name).indexer_kinds) {
      letters += kind == IndexerKind::kFull ? 'F' : 'S';
    }
    return letters;
  };
  CHECK(kinds("glm-5.2") == "FSSSFS");
  for (const char *name : {"qwen3-30b", "mixtral-8x7b"}) {
    CHECK(kinds(name) == "FSSSSS");
    CHECK(config_of(name).index_top_k == config_of(name).max_positions);
  }
}

TEST_CASE("config.json says that the weights are random, and how they were made") {
  const std::string text = synthesis_config_text(find_synthesis_shape("qwen3-30b"),
                                                 {4, 0.25, 0.625, 0xFFFF'FFFF'FFFF'FFFF});
  const JsonDocument document = JsonDocument::parse(text, "config.json");
  const JsonValue made = document.root().get("colibri_synthetic");
  CHECK(made.get("note").as_string().value_or("").find("Random weights") == 0);
  CHECK(made.get("shape").as_string() == "qwen3-30b");
  CHECK(made.get("skew").as_number() == 0.25);
  CHECK(made.get("repeat").as_number() == 0.625);
  CHECK(made.get("seed").as_unsigned() == 0xFFFF'FFFF'FFFF'FFFF);
}

TEST_CASE("an unknown shape is refused with those that there are") {
  for (const char *name : {"", "qwen3", "GLM-5.2", "glm-5.2 "}) {
    expect_failure(StatusCode::kArgument, {"qwen3-30b, glm-5.2, mixtral-8x7b"},
                   [&] { find_synthesis_shape(name); });
  }
}

}  // namespace

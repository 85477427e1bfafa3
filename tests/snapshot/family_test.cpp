// SPDX-License-Identifier: Apache-2.0
//
// The families: what each golden config says, and the traps in which they differ. What glm_moe_dsa
// shares with all of them is in model_config_test.cpp.

#include "lib/snapshot/family.h"

#include "tests/snapshot/golden_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Changes = std::map<std::string, std::string>;  // an empty value removes the key

ModelConfig parse(const std::string &folder, const Changes &changes = {}) {
  TinyModel model = read_golden_model(folder);
  for (const auto &[key, value] : changes) {
    model.config[key] = value;
    if (value.empty()) model.config.erase(key);
  }
  const JsonDocument document = JsonDocument::parse(model.config_text(), "config.json");
  return parse_model_config(document.root(), "config.json");
}

void expect_refused(StatusCode code, const std::string &folder, const Changes &changes,
                    std::initializer_list<std::string_view> parts) {
  INFO(folder);
  expect_failure(code, parts, [&] { parse(folder, changes); });
}

void expect_unsupported(const std::string &folder, const Changes &changes,
                        std::initializer_list<std::string_view> parts) {
  expect_refused(StatusCode::kUnsupported, folder, changes, parts);
}

std::string layer_letters(const ModelConfig &config) {
  std::string letters;
  for (const FeedForwardKind kind : config.feed_forward_kinds) {
    letters += kind == FeedForwardKind::kDense ? 'D' : 'M';
  }
  return letters;
}

using Windows = std::vector<uint32_t>;

}  // namespace

TEST_CASE("every family has a row, and every row a name that is found") {
  CHECK(families().size() == 10);
  for (const Family *family : families()) {
    INFO(family->model_type);
    CHECK(find_family(family->model_type) == family);
    CHECK_FALSE(family->names.empty());
    CHECK(std::string(family->models).size() > 3);
  }
  CHECK(find_family("glm4") == nullptr);
}

TEST_CASE("deepseek_v3: latent attention with yarn in frequencies and softmax scale") {
  const ModelConfig c = parse("deepseek_v3-yarn");
  CHECK(c.attention == AttentionKind::kLatent);
  CHECK(c.query_latent == 48);
  CHECK(c.query_head_width() == 40);
  CHECK(c.value_head_width() == 20);
  CHECK(c.latent_norm_eps == 1e-6f);
  CHECK(c.index_top_k == 0);
  CHECK(c.indexer_kinds.empty());
  CHECK(c.windows == Windows(4, 0));
  CHECK(layer_letters(c) == "DMMM");
  CHECK(c.router == RouterKind::kSigmoid);
  CHECK(c.n_groups == 4);
  CHECK(c.n_top_groups == 2);
  CHECK(c.shared_width == 40);
  CHECK(c.n_layers == 4);  // the MTP layer that it announces is none of them
  const RotaryConfig &rotary = c.rotary;
  CHECK(rotary.scaling == RotaryScaling::kYarn);
  CHECK(rotary.width == 16);
  CHECK(rotary.is_interleaved);
  CHECK(rotary.factor == 40.0f);
  CHECK(rotary.original_positions == 4096);
  CHECK(rotary.truncates);
  // Both weights are 1: nothing is left for cosine and sine, all of it goes into the scale.
  CHECK(rotary.amplitude == 1.0f);
  CHECK(c.softmax_factor == Approx(1.8738542));
}

TEST_CASE("the two corrections of yarn are independent [L-17]") {
  const auto with = [](const std::string &more) {
    const std::string yarn =
        R"({"type":"yarn","factor":40,"original_max_position_embeddings":4096)";
    return parse(
        "deepseek_v3-yarn",
        {{"rope_parameters", ""}, {"rope_theta", "10000"}, {"rope_scaling", yarn + more + "}"}});
  };
  const float m = 1.3688879f;
  CHECK(with("").softmax_factor == 1.0f);
  CHECK(with("").rotary.amplitude == Approx(m));
  CHECK(with(R"(,"mscale":0.5,"mscale_all_dim":0)").rotary.amplitude == Approx(m));
  CHECK(with(R"(,"mscale_all_dim":1)").rotary.amplitude == Approx(m));
  CHECK(with(R"(,"mscale_all_dim":1)").softmax_factor == Approx(m * m));
  CHECK(with(R"(,"mscale":0.5,"mscale_all_dim":1)").rotary.amplitude ==
        Approx((1 + (m - 1) / 2) / m));
  CHECK(with(R"(,"attention_factor":1.5)").rotary.amplitude == 1.5f);
  CHECK(with(R"(,"beta_fast":16,"truncate":false)").rotary.beta_fast == 16.0f);
}

TEST_CASE("yarn without its numbers is refused, a null factor follows from positions [L-17]") {
  const auto yarn = [](const std::string &members) {
    return Changes{{"rope_parameters", R"({"rope_type":"yarn","rope_theta":1e4)" + members + "}"}};
  };
  const std::string folder = "deepseek_v3-yarn";
  CHECK(parse(folder, yarn(R"(,"factor":null,"original_max_position_embeddings":4096)"))
            .rotary.factor == 40.0f);
  expect_refused(StatusCode::kFormat, folder, yarn(R"(,"factor":4)"),
                 {"original_max_position_embeddings", "absent"});
  expect_refused(StatusCode::kFormat, folder,
                 yarn(R"(,"factor":0.5,"original_max_position_embeddings":4096)"), {"factor"});
  expect_refused(StatusCode::kFormat, folder,
                 yarn(R"(,"factor":4,"mscale":-1,"original_max_position_embeddings":4096)"),
                 {"mscale is -1"});
  expect_refused(StatusCode::kFormat, folder,
                 {{"rope_parameters", R"({"rope_type":"yarn","type":"default","rope_theta":1e4})"}},
                 {"rope_parameters", "contradicts"});
}

TEST_CASE("rotation that is not computed is refused by name in every family [L-16, L-17]") {
  for (const char *folder : {"deepseek_v3-yarn", "mixtral", "qwen3_moe", "gpt_oss", "glm4_moe"}) {
    for (const char *type : {"linear", "dynamic", "longrope", "llama3", "mrope"}) {
      expect_unsupported(folder,
                         {{"rope_parameters", ""},
                          {"rope_theta", "10000"},
                          {"rope_scaling", R"({"factor":2,"type":")" + std::string(type) + "\"}"}},
                         {"rope_scaling", type});
    }
    // A rotation for each kind of layer, as newer files have it.
    expect_unsupported(folder,
                       {{"rope_parameters", R"({"full_attention":{"rope_type":"default"}})"}},
                       {"full_attention"});
  }
}

TEST_CASE("the rotary base has a default only where every published file that lacks it agrees") {
  const Changes without = {{"rope_parameters", ""}, {"rope_theta", ""}};
  for (const char *folder : {"qwen3_moe", "qwen2_moe", "olmoe"}) {
    CHECK(parse(folder, without).rotary.theta == 10000.0f);
  }
  for (const char *folder : {"mixtral", "glm4_moe", "glm4_moe_lite", "gpt_oss", "deepseek_v32"}) {
    expect_refused(StatusCode::kFormat, folder, without, {"rope_theta", "absent"});
  }
}

TEST_CASE("deepseek_v3 may lack the query latent, others may not") {
  CHECK(parse("deepseek_v3-yarn", {{"q_lora_rank", "null"}}).query_latent == 0);
  for (const char *folder : {"deepseek_v32", "glm4_moe_lite"}) {
    expect_refused(StatusCode::kFormat, folder, {{"q_lora_rank", "null"}}, {"q_lora_rank"});
  }
}

TEST_CASE("routers of older relatives are refused by name [L-17]") {
  for (const char *method : {"group_limited_greedy", "greedy"}) {
    expect_unsupported("deepseek_v3-yarn", {{"topk_method", "\"" + std::string(method) + "\""}},
                       {"topk_method", method});
  }
  expect_unsupported("glm4_moe", {{"scoring_func", "\"softmax\""}}, {"scoring_func"});
  expect_unsupported("deepseek_v3-yarn", {{"moe_layer_freq", "2"}}, {"moe_layer_freq"});
}

TEST_CASE("deepseek_v32: the indexer rotates halves where attention rotates adjacent pairs") {
  const ModelConfig c = parse("deepseek_v32");
  CHECK(c.index_top_k == 16);
  CHECK(c.indexer_kinds == std::vector<IndexerKind>(3, IndexerKind::kFull));
  CHECK(c.rotary.is_interleaved);
  CHECK_FALSE(c.has_interleaved_index_rope);
  CHECK(parse("deepseek_v32", {{"indexer_rope_interleave", "true"}}).has_interleaved_index_rope);
  CHECK(layer_letters(c) == "DMM");
}

TEST_CASE("glm4_moe_lite: latent attention without indexer, one dense layer unless it says so") {
  const ModelConfig c = parse("glm4_moe_lite");
  CHECK(c.attention == AttentionKind::kLatent);
  CHECK(c.index_top_k == 0);
  CHECK(c.router == RouterKind::kSigmoid);
  CHECK(c.routed_scale == 1.8f);
  CHECK(c.latent_norm_eps == 1e-5f);
  CHECK(c.softmax_factor == 1.0f);
  CHECK(layer_letters(parse("glm4_moe_lite", {{"mlp_layer_types", ""}})) == "DMM");
}

TEST_CASE("mixtral: the width of a head follows from the model's, all layers are sparse") {
  const ModelConfig c = parse("mixtral");
  CHECK(c.attention == AttentionKind::kGrouped);
  CHECK(c.n_heads == 4);
  CHECK(c.n_kv_heads == 2);
  CHECK(c.head_width == 16);
  CHECK(c.rotary.width == 16);
  CHECK_FALSE(c.rotary.is_interleaved);
  CHECK(c.query_key_norm == QueryKeyNorm::kNone);
  CHECK_FALSE(c.has_query_bias);
  CHECK(layer_letters(c) == "MMM");
  CHECK(c.expert_width == 80);
  CHECK(c.dense_width == 0);
  CHECK(c.router == RouterKind::kSoftmax);
  CHECK(c.normalises_top_k);
  CHECK(c.routed_scale == 1.0f);
  CHECK(c.shared_width == 0);
  CHECK(c.windows == Windows(3, 0));
  CHECK(parse("mixtral", {{"sliding_window", "4096"}}).windows == Windows(3, 4096));
  expect_refused(StatusCode::kFormat, "mixtral", {{"num_attention_heads", "6"}}, {"head_dim"});
  expect_refused(StatusCode::kFormat, "mixtral", {{"num_key_value_heads", "3"}},
                 {"num_key_value_heads is 3"});
}

TEST_CASE("qwen3_moe: norms per head, the file decides whether weights are normalised") {
  const ModelConfig c = parse("qwen3_moe");
  CHECK(c.head_width == 32);  // 4 heads of 32 in a model of 64
  CHECK(c.query_key_norm == QueryKeyNorm::kPerHead);
  CHECK(layer_letters(c) == "MDMM");
  CHECK(c.dense_width == 96);
  CHECK(c.n_experts == 16);
  CHECK(c.normalises_top_k);
  CHECK_FALSE(parse("qwen3_moe", {{"norm_topk_prob", ""}}).normalises_top_k);
  CHECK(layer_letters(parse("qwen3_moe", {{"decoder_sparse_step", "2"}})) == "DDDM");
  CHECK(layer_letters(parse("qwen3_moe", {{"mlp_only_layers", ""}})) == "MMMM");
  expect_unsupported("qwen3_moe", {{"attention_bias", "true"}}, {"attention_bias is true"});
  // A window counts only where it is switched on.
  CHECK(parse("qwen3_moe", {{"sliding_window", "4096"}}).windows == Windows(4, 0));
  CHECK(parse("qwen3_moe", {{"sliding_window", "64"}, {"use_sliding_window", "true"}}).windows ==
        Windows(4, 64));
  expect_unsupported("qwen3_moe", {{"partial_rotary_factor", "0.5"}}, {"partial_rotary_factor"});
}

TEST_CASE("qwen3_moe: a user's yarn scales cosine and sine and no softmax") {
  const ModelConfig c =
      parse("qwen3_moe", {{"rope_parameters", ""},
                          {"rope_theta", "1000000"},
                          {"rope_scaling", R"({"rope_type":"yarn","factor":4.0,)"
                                           R"("original_max_position_embeddings":32768})"}});
  CHECK(c.rotary.amplitude == Approx(1.1386294));
  CHECK(c.softmax_factor == 1.0f);
}

TEST_CASE("a tied embedding is read in every family, absence means that it is not") {
  CHECK(parse("qwen3_moe-nonorm-tied").ties_embedding);
  CHECK_FALSE(parse("qwen3_moe-nonorm-tied").normalises_top_k);
  CHECK_FALSE(parse("qwen3_moe-nonorm-tied", {{"tie_word_embeddings", ""}}).ties_embedding);
}

TEST_CASE("qwen2_moe: biases of queries, keys and values, a gated shared expert") {
  const ModelConfig c = parse("qwen2_moe");
  CHECK(c.has_query_bias);
  CHECK_FALSE(c.has_output_bias);
  CHECK(parse("qwen2_moe", {{"qkv_bias", ""}}).has_query_bias);
  CHECK_FALSE(parse("qwen2_moe", {{"qkv_bias", "false"}}).has_query_bias);
  CHECK(c.query_key_norm == QueryKeyNorm::kNone);
  CHECK(layer_letters(c) == "DMDDDM");  // every second, and layer 3 is dense by its own key
  CHECK(c.shared_width == 72);
  CHECK(c.has_shared_gate);
  CHECK_FALSE(c.normalises_top_k);
  CHECK(c.windows == Windows(6, 0));
}

TEST_CASE("qwen2_moe: a window that is switched on is in even layers below a limit") {
  const Changes on = {{"sliding_window", "8"},
                      {"use_sliding_window", "true"},
                      {"max_window_layers", "3"},
                      {"layer_types", ""}};
  CHECK(parse("qwen2_moe", on).windows == Windows{8, 0, 8, 0, 0, 0});
}

TEST_CASE("olmoe: norms over whole vectors, experts as wide as intermediate_size") {
  const ModelConfig c = parse("olmoe");
  CHECK(c.query_key_norm == QueryKeyNorm::kWhole);
  CHECK(c.expert_width == 32);
  CHECK(c.router == RouterKind::kSoftmax);
  CHECK_FALSE(c.normalises_top_k);
  expect_refused(StatusCode::kFormat, "olmoe", {{"intermediate_size", ""}}, {"intermediate_size"});
  expect_unsupported("olmoe", {{"clip_qkv", "8.0"}}, {"clip_qkv is 8"});
  expect_unsupported("olmoe", {{"attention_bias", "true"}}, {"attention_bias"});
}

TEST_CASE("glm4_moe: the first half of each head is rotated, in halves") {
  const ModelConfig c = parse("glm4_moe");
  CHECK(c.rotary.width == 16);
  CHECK(c.head_width == 32);
  CHECK_FALSE(c.rotary.is_interleaved);
  CHECK(c.has_query_bias);
  CHECK_FALSE(c.has_output_bias);
  CHECK(c.query_key_norm == QueryKeyNorm::kPerHead);
  CHECK(c.router == RouterKind::kSigmoid);
  CHECK(c.shared_width == 32);
  CHECK(c.n_layers == 3);
  const Changes without = {{"rope_parameters", ""},
                           {"rope_theta", "1000000"},
                           {"use_qk_norm", ""},
                           {"attention_bias", ""}};
  CHECK(parse("glm4_moe", without).rotary.width == 16);
  CHECK(parse("glm4_moe", without).query_key_norm == QueryKeyNorm::kNone);
  CHECK_FALSE(parse("glm4_moe", without).has_query_bias);
  Changes quarter = without;
  quarter["partial_rotary_factor"] = "0.25";
  CHECK(parse("glm4_moe", quarter).rotary.width == 8);
  quarter["partial_rotary_factor"] = "0.03";
  expect_refused(StatusCode::kFormat, "glm4_moe", quarter, {"partial_rotary_factor"});
}

TEST_CASE("gpt_oss: windows, sinks, biases everywhere, clamped activations") {
  const ModelConfig c = parse("gpt_oss");
  CHECK(c.windows == Windows{16, 0, 16, 0});
  CHECK(c.has_sinks);
  CHECK(c.has_query_bias);
  CHECK(c.has_output_bias);
  CHECK(c.has_expert_bias);
  CHECK(c.has_router_bias);
  CHECK(c.router == RouterKind::kSoftmaxOfChosen);
  CHECK(c.expert_width == 64);
  CHECK(c.expert_activation == Activation{ActivationKind::kClampedSwish, 7.0f, 1.702f});
  CHECK(parse("gpt_oss", {{"swiglu_alpha", ""}}).expert_activation.alpha == 1.702f);
  CHECK(parse("gpt_oss-bf16").expert_activation.limit == 4.0f);
  CHECK_FALSE(c.rotary.truncates);
  CHECK(c.rotary.amplitude == Approx(1.3465736));
  CHECK(c.softmax_factor == 1.0f);
  expect_unsupported("gpt_oss", {{"attention_bias", "false"}}, {"attention_bias is false"});
  expect_refused(StatusCode::kFormat, "gpt_oss", {{"swiglu_limit", ""}}, {"swiglu_limit"});
}

TEST_CASE("layer_types decides which layers are windowed, else the family's rule") {
  CHECK(parse("gpt_oss", {{"layer_types", ""}}).windows == Windows{16, 0, 16, 0});
  const std::string other = R"(["full_attention","sliding_attention","full_attention",)"
                            R"("full_attention"])";
  CHECK(parse("gpt_oss", {{"layer_types", other}}).windows == Windows{0, 16, 0, 0});
  expect_refused(StatusCode::kFormat, "gpt_oss", {{"sliding_window", "null"}}, {"sliding_window"});
  expect_refused(StatusCode::kFormat, "gpt_oss", {{"layer_types", "[\"full_attention\"]"}},
                 {"layer_types", "4"});
  const std::string unknown = R"(["linear_attention","sliding_attention","full_attention",)"
                              R"("full_attention"])";
  expect_unsupported("gpt_oss", {{"layer_types", unknown}}, {"layer_types", "entry 0"});
  expect_unsupported(
      "deepseek_v32",
      {{"layer_types", R"(["sliding_attention","indexed_attention","indexed_attention"])"}},
      {"layer_types"});
}

TEST_CASE("the hash of a config changes with every number and not with stop ids") {
  const uint64_t hash = hash_model_config(parse("gpt_oss"));
  CHECK(hash == hash_model_config(parse("gpt_oss", {{"eos_token_id", "[7,8]"}})));
  for (const Changes &changes :
       {Changes{{"swiglu_alpha", "1.7"}}, Changes{{"swiglu_limit", "6"}},
        Changes{{"sliding_window", "17"}}, Changes{{"num_experts_per_tok", "3"}},
        Changes{{"rms_norm_eps", "2e-5"}}, Changes{{"tie_word_embeddings", "true"}}}) {
    CHECK(hash != hash_model_config(parse("gpt_oss", changes)));
  }
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// config.json of the glm_moe_dsa family: spellings, precedence, ranges, relations.

#include "lib/snapshot/model_config.h"

#include <filesystem>

#include "lib/snapshot/family.h"
#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Changes = std::map<std::string, std::string>;  // an empty value removes the key

std::string text_with(const Changes &changes) {
  TinyModel model;
  for (const auto &[key, value] : changes) {
    model.config[key] = value;
    if (value.empty()) model.config.erase(key);
  }
  return model.config_text();
}

ModelConfig parse(const Changes &changes) {
  const JsonDocument document = JsonDocument::parse(text_with(changes), "config.json");
  return parse_model_config(document.root(), "config.json");
}

void expect_refused(StatusCode code, const Changes &changes,
                    std::initializer_list<std::string_view> parts) {
  INFO("config: " << text_with(changes));
  expect_failure(code, {"config.json"}, [&] { parse(changes); });
  expect_failure(code, parts, [&] { parse(changes); });
}

void expect_refused(const Changes &changes, std::initializer_list<std::string_view> parts) {
  expect_refused(StatusCode::kFormat, changes, parts);
}

std::string indexer_letters(const ModelConfig &config) {
  std::string letters;
  for (const IndexerKind kind : config.indexer_kinds)
    letters += kind == IndexerKind::kFull ? 'F' : 'S';
  return letters;
}

std::string feed_forward_letters(const ModelConfig &config) {
  std::string letters;
  for (const FeedForwardKind kind : config.feed_forward_kinds) {
    letters += kind == FeedForwardKind::kDense ? 'D' : 'M';
  }
  return letters;
}

JsonDocument read_golden(const std::string &folder, const std::string &name) {
  const std::string path = std::string(COLIBRI_TEST_DATA) + "/" + folder + "/" + name;
  const std::vector<uint8_t> bytes = read_whole_file(path, kMaxJsonBytes);
  return JsonDocument::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, name);
}

}  // namespace

TEST_CASE("reads the numbers of a config") {
  const ModelConfig config = parse({});
  CHECK(config.model_type == "glm_moe_dsa");
  CHECK(config.vocabulary_size == 32);
  CHECK(config.n_layers == 3);
  CHECK(config.rotary.theta == 10000.0f);
  CHECK(config.latent_norm_eps == 1e-5f);
  CHECK(config.routed_scale == 2.5f);
  CHECK(config.n_groups == 1);
  CHECK(config.normalises_top_k);
  CHECK(config.rotary.is_interleaved);
  CHECK(config.has_interleaved_index_rope);
  CHECK_FALSE(config.ties_embedding);
  CHECK(indexer_letters(config) == "FFS");
  CHECK(feed_forward_letters(config) == "DMM");
  CHECK(config.stop_ids == std::vector<int64_t>{30});
}

TEST_CASE("the published and the saved spelling of every golden config mean the same") {
  size_t n_pairs = 0;
  for (const auto &entry : std::filesystem::directory_iterator(COLIBRI_TEST_DATA)) {
    const std::string folder = entry.path().filename().string();
    if (!entry.is_directory()) continue;
    INFO(folder);
    const JsonDocument saved = read_golden(folder, "config.json");
    const JsonDocument published = read_golden(folder, "config.published.json");
    CHECK(parse_model_config(saved.root(), "config.json") ==
          parse_model_config(published.root(), "config.published.json"));
    ++n_pairs;
  }
  CHECK(n_pairs >= 18);
}

TEST_CASE("an unsupported architecture is refused with the list of supported ones [L-14]") {
  expect_refused(StatusCode::kUnsupported, {{"model_type", "\"llama\""}},
                 {"'llama'", "glm_moe_dsa"});
  expect_refused(StatusCode::kUnsupported, {{"model_type", ""}}, {"glm_moe_dsa"});
  expect_refused({{"model_type", "7"}}, {"model_type is 7"});
  const std::string supported = supported_model_types();
  for (const Family *family : families()) {
    CHECK(supported.find(family->model_type) != std::string::npos);
    expect_refused(StatusCode::kUnsupported, {{"model_type", "\"llama\""}}, {family->model_type});
    CHECK(find_family(family->model_type) == family);
  }
}

TEST_CASE("the rotary base is found in all three places, the newer one first [L-16]") {
  const auto theta = [](Changes changes) {
    changes["rope_theta"];
    return parse(changes).rotary.theta;
  };
  CHECK(theta({{"rope_parameters", R"({"rope_theta":8000000,"rope_type":"default"})"}}) == 8e6f);
  CHECK(theta({{"rope_scaling", R"({"rope_theta":5e5,"type":"default"})"}}) == 5e5f);
  CHECK(
      parse({{"rope_parameters", R"({"rope_theta":7.0})"}, {"rope_scaling", R"({"rope_theta":6})"}})
          .rotary.theta == 7.0f);
  CHECK(parse({{"rope_parameters", "{}"}}).rotary.theta == 10000.0f);
  CHECK(parse({{"rope_scaling", "null"}}).rotary.theta == 10000.0f);
}

TEST_CASE("every required number that is absent or null is an error, not a default [L-16, X-19]") {
  for (const char *key : {"vocab_size",        "hidden_size",
                          "num_hidden_layers", "max_position_embeddings",
                          "rms_norm_eps",      "num_attention_heads",
                          "q_lora_rank",       "kv_lora_rank",
                          "qk_nope_head_dim",  "qk_rope_head_dim",
                          "v_head_dim",        "rope_theta",
                          "index_n_heads",     "index_head_dim",
                          "index_topk",        "first_k_dense_replace",
                          "intermediate_size", "moe_intermediate_size",
                          "n_routed_experts",  "num_experts_per_tok",
                          "n_shared_experts",  "routed_scaling_factor"}) {
    expect_refused({{key, ""}}, {key, "absent"});
    expect_refused({{key, "null"}}, {key, "absent"});
    expect_refused({{key, "\"7\""}}, {key, "is \"7\""});
    expect_refused({{key, "-1"}}, {key, "is -1"});
    expect_refused({{key, "[1]"}}, {key, "is [1]"});
    expect_refused({{key, "true"}}, {key, "is true"});
  }
}

TEST_CASE("counts out of range or not whole are refused with value and range [X-03]") {
  expect_refused({{"hidden_size", "0"}}, {"hidden_size is 0", "1..1048576"});
  expect_refused({{"hidden_size", "1048577"}}, {"1048577"});
  expect_refused({{"hidden_size", "16.5"}}, {"16.5"});
  expect_refused({{"num_hidden_layers", "1025"}}, {"1..1024"});
  expect_refused({{"vocab_size", "99999999999999999999"}}, {"vocab_size"});
  expect_refused({{"rms_norm_eps", "0"}}, {"above 0"});
  expect_refused({{"rms_norm_eps", "1e-300"}}, {"above 0"});
  expect_refused({{"rope_theta", "1e300"}}, {"rope_theta"});
  CHECK(parse({{"hidden_size", "16.0"}}).width == 16);
}

TEST_CASE("relations between numbers are checked, not just ranges [X-03]") {
  expect_refused({{"qk_rope_head_dim", "3"}}, {"qk_rope_head_dim", "even"});
  expect_refused({{"qk_rope_head_dim", "10"}}, {"index_head_dim is 8", "10"});
  expect_refused({{"num_experts_per_tok", "5"}}, {"num_experts_per_tok is 5", "4"});
  expect_refused({{"n_group", "3"}}, {"n_group is 3", "divide"});
  expect_refused({{"n_group", "4"}}, {"at least 2 experts"});
  expect_refused({{"n_group", "2"}, {"topk_group", "3"}}, {"topk_group is 3"});
  expect_refused({{"n_group", "2"}, {"num_experts_per_tok", "3"}},
                 {"num_experts_per_tok is 3", "2 experts"});
  CHECK(parse({{"n_group", "2"}, {"topk_group", "1"}}).n_groups == 2);
}

TEST_CASE("values that change the mathematics are refused by name [L-17]") {
  const StatusCode code = StatusCode::kUnsupported;
  expect_refused(code, {{"rope_scaling", R"({"type":"longrope","factor":40})"}},
                 {"rope_scaling", "\"longrope\"", "default", "yarn"});
  expect_refused(code, {{"rope_parameters", R"({"rope_type":"linear","rope_theta":1})"}},
                 {"\"linear\""});
  expect_refused(code, {{"hidden_act", "\"gelu\""}}, {"hidden_act", "gelu", "silu"});
  expect_refused(code, {{"scoring_func", "\"softmax\""}}, {"softmax", "sigmoid"});
  expect_refused(code, {{"topk_method", "\"greedy\""}}, {"greedy", "noaux_tc"});
  expect_refused(code, {{"attention_bias", "true"}}, {"attention_bias is true"});
  expect_refused(code, {{"mlp_bias", "true"}}, {"mlp_bias"});
  expect_refused(code, {{"moe_layer_freq", "2"}}, {"moe_layer_freq is 2"});
  expect_refused({{"hidden_act", "1"}}, {"hidden_act is 1"});
  expect_refused({{"norm_topk_prob", "1"}}, {"norm_topk_prob is 1"});
}

TEST_CASE("rope_parameters decides the type where both objects exist") {
  const Changes changes = {{"rope_parameters", R"({"rope_type":"default","rope_theta":5})"},
                           {"rope_scaling", R"({"type":"yarn"})"}};
  CHECK(parse(changes).rotary.theta == 5.0f);
}

TEST_CASE("unknown keys are ignored, and head_dim is not needed") {
  CHECK(parse({{"head_dim", "64"}, {"novel_key", "{\"a\":[1]}"}}) == parse({}));
}

TEST_CASE("the number of experts has three names, which must agree") {
  for (const char *key : {"num_experts", "num_local_experts"}) {
    CHECK(parse({{"n_routed_experts", ""}, {key, "4"}}).n_experts == 4);
  }
  CHECK(parse({{"num_experts", "4"}}).n_experts == 4);
  expect_refused({{"num_experts", "8"}}, {"num_experts is 8", "n_routed_experts is 4"});
}

TEST_CASE("indexer kinds: list, then pattern, then formula") {
  const auto letters = [](Changes changes) { return indexer_letters(parse(changes)); };
  CHECK(letters({{"index_topk_pattern", "\"FFF\""}}) == "FFS");
  CHECK(letters({{"indexer_types", "null"}, {"index_topk_pattern", "\"FSF\""}}) == "FSF");
  CHECK(letters({{"indexer_types", ""}, {"index_topk_pattern", R"(["F","S","S"])"}}) == "FSS");
  CHECK(letters({{"indexer_types", ""}}) == "FFF");
  CHECK(letters({{"indexer_types", ""}, {"index_topk_freq", "2"}}) == "FFS");
  CHECK(letters({{"indexer_types", ""}, {"index_topk_freq", "null"}}) == "FFF");
}

TEST_CASE("the indexer formula gives the published layers of a 78-layer model") {
  const ModelConfig config = parse({{"indexer_types", ""},
                                    {"num_hidden_layers", "78"},
                                    {"index_topk_freq", "4"},
                                    {"index_skip_topk_offset", "3"}});
  for (size_t layer = 0; layer < 78; ++layer) {
    const bool is_full = layer < 3 || layer % 4 == 2;
    CHECK((config.indexer_kinds[layer] == IndexerKind::kFull) == is_full);
  }
}

TEST_CASE("lists of layers must have one known entry per layer") {
  expect_refused({{"indexer_types", "[\"full\",\"full\"]"}}, {"indexer_types", "3 times"});
  expect_refused({{"indexer_types", "[\"full\",\"full\",\"half\"]"}}, {"entry 2"});
  expect_refused({{"indexer_types", "[\"shared\",\"full\",\"full\"]"}}, {"layer 0"});
  expect_refused({{"indexer_types", "\"full\""}}, {"indexer_types"});
  expect_refused({{"indexer_types", ""}, {"index_topk_pattern", "\"FFX\""}},
                 {"index_topk_pattern"});
  expect_refused({{"mlp_layer_types", "[\"dense\"]"}}, {"mlp_layer_types"});
}

TEST_CASE("mlp_layer_types wins over first_k_dense_replace") {
  const std::string list = R"(["sparse","dense","sparse"])";
  CHECK(feed_forward_letters(parse({{"mlp_layer_types", list}})) == "MDM");
  CHECK(feed_forward_letters(parse({{"mlp_layer_types", list}, {"first_k_dense_replace", ""}})) ==
        "MDM");
  CHECK(feed_forward_letters(parse({{"first_k_dense_replace", "0"}})) == "MMM");
  CHECK(feed_forward_letters(parse({{"first_k_dense_replace", "7"}})) == "DDD");
}

TEST_CASE("the latent epsilon has its own key, else it is the common one") {
  CHECK(parse({{"latent_norm_eps", "1e-6"}}).latent_norm_eps == 1e-6f);
  CHECK(parse({{"latent_norm_eps", "null"}}).latent_norm_eps == 1e-5f);
}

TEST_CASE("a model may have no shared expert") {
  CHECK(parse({{"n_shared_experts", "0"}}).shared_width == 0);
}

TEST_CASE("stop ids may be a number, a list, null or absent, other things are refused [L-15]") {
  CHECK(parse({{"eos_token_id", "7"}}).stop_ids == std::vector<int64_t>{7});
  CHECK(parse({{"eos_token_id", "[7,8]"}}).stop_ids == std::vector<int64_t>{7, 8});
  CHECK(parse({{"eos_token_id", "null"}}).stop_ids.empty());
  CHECK(parse({{"eos_token_id", ""}}).stop_ids.empty());
  expect_refused({{"eos_token_id", "\"7\""}}, {"eos_token_id"});
  expect_refused({{"eos_token_id", "[7,-1]"}}, {"eos_token_id is [7,-1]"});
  expect_refused({{"eos_token_id", "4294967296"}}, {"eos_token_id"});
}

TEST_CASE("a config that is no object is refused [X-19]") {
  for (const char *text : {"[]", "null", "7"}) {
    const JsonDocument document = JsonDocument::parse(text, "config.json");
    expect_failure(StatusCode::kFormat, {"config.json", "object"},
                   [&] { parse_model_config(document.root(), "config.json"); });
  }
}

}  // namespace colibri::test

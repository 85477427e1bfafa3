// SPDX-License-Identifier: Apache-2.0
//
// One function per family turns config.json into a ModelConfig; kFamilies is the list of them.
// Ranges stand at the keys and are far above every known model; together they keep a product of any
// two widths and an element size below 2^48. Relations between keys are checked after all keys are
// read.
//
// Numbers that change the result and are absent are an error. Defaults exist only for switches
// whose absence has one accepted meaning in published files.

#include "lib/snapshot/model_config.h"

#include <algorithm>
#include <string_view>

#include "lib/base/status.h"
#include "lib/snapshot/config_reader.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr CountRange kVocabularyRange = {1, 1u << 24};
constexpr CountRange kWidthRange = {1, 1u << 20};
constexpr CountRange kLayerRange = {1, 1024};
constexpr CountRange kPositionRange = {1, INT32_MAX};
constexpr CountRange kHeadRange = {1, 4096};
constexpr CountRange kHeadWidthRange = {1, 1u << 14};
constexpr CountRange kExpertRange = {1, 4096};
constexpr CountRange kSharedExpertRange = {0, 64};

// RoPE base and type: rope_parameters wins over rope_scaling, which wins over the top level.
void read_rope(const ConfigReader &reader, const std::string &file, ModelConfig *config) {
  bool has_theta = false;
  bool has_type = false;
  for (const char *key : {"rope_parameters", "rope_scaling"}) {
    if (!reader.has(key)) continue;
    if (!reader.get(key).is_object()) reader.fail(key, "an object is needed");
    const ConfigReader nested(reader.get(key), file + ": " + key);
    if (!has_type) {
      for (const char *type : {"rope_type", "type"}) nested.require_text_value(type, "default");
    }
    has_type = has_type || nested.has("rope_type") || nested.has("type");
    if (!has_theta && nested.has("rope_theta")) {
      config->rope_theta = nested.require_positive("rope_theta");
      has_theta = true;
    }
  }
  if (!has_theta) config->rope_theta = reader.require_positive("rope_theta");
}

// A list of n_layers texts, each equal to one of two names; true stands for the first.
std::vector<bool> read_layer_names(const ConfigReader &reader, const char *key, uint32_t n_layers,
                                   std::initializer_list<std::string_view> first,
                                   std::initializer_list<std::string_view> second) {
  const JsonValue list = reader.get(key);
  const std::string rule = "a list of " + std::to_string(n_layers) + " times '" +
                           std::string(*first.begin()) + "' or '" + std::string(*second.begin()) +
                           "' is needed";
  if (!list.is_array() || list.size() != n_layers) reader.fail(key, rule);
  std::vector<bool> result;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string_view name = list.at(i).as_string().value_or("");
    const bool is_first = std::find(first.begin(), first.end(), name) != first.end();
    if (!is_first && std::find(second.begin(), second.end(), name) == second.end()) {
      reader.fail(key, rule + "; entry " + std::to_string(i) + " is neither");
    }
    result.push_back(is_first);
  }
  return result;
}

std::vector<bool> read_pattern(const ConfigReader &reader, const char *key, uint32_t n_layers) {
  if (reader.get(key).is_array()) {
    return read_layer_names(reader, key, n_layers, {"F", "full"}, {"S", "shared"});
  }
  const std::string_view pattern = reader.read_text(key).value_or("");
  if (pattern.size() != n_layers || pattern.find_first_not_of("FS") != std::string_view::npos) {
    reader.fail(key, std::to_string(n_layers) + " letters F or S are needed");
  }
  std::vector<bool> result;
  for (const char letter : pattern) result.push_back(letter == 'F');
  return result;
}

// indexer_types wins over index_topk_pattern, which wins over the frequency formula.
void read_indexer_kinds(const ConfigReader &reader, ModelConfig *config) {
  const uint32_t n_layers = config->n_layers;
  std::vector<bool> is_full;
  if (reader.has("indexer_types")) {
    is_full = read_layer_names(reader, "indexer_types", n_layers, {"full"}, {"shared"});
  } else if (reader.has("index_topk_pattern")) {
    is_full = read_pattern(reader, "index_topk_pattern", n_layers);
  } else {
    const int64_t frequency = std::max(reader.read_count("index_topk_freq", {0, 4096}, 1), 1u);
    const int64_t offset = reader.read_count("index_skip_topk_offset", {0, 4096}, 2);
    for (int64_t layer = 0; layer < n_layers; ++layer) {
      is_full.push_back(std::max<int64_t>(layer - offset + 1, 0) % frequency == 0);
    }
  }
  if (!is_full.front()) {
    reader.fail_relation(
        "layer 0 shares the selection of an indexer, but no layer comes before it");
  }
  for (const bool full : is_full) {
    config->indexer_kinds.push_back(full ? IndexerKind::kFull : IndexerKind::kShared);
  }
}

// mlp_layer_types wins over first_k_dense_replace.
void read_feed_forward_kinds(const ConfigReader &reader, ModelConfig *config) {
  const uint32_t n_layers = config->n_layers;
  std::vector<bool> is_dense;
  if (reader.has("mlp_layer_types")) {
    is_dense = read_layer_names(reader, "mlp_layer_types", n_layers, {"dense"}, {"sparse"});
  } else {
    const uint32_t n_dense = reader.require_count("first_k_dense_replace", {0, 1024});
    if (reader.read_count("moe_layer_freq", {0, 1024}, 1) != 1) {
      reader.fail_unsupported("moe_layer_freq", "this version computes 1 only");
    }
    for (uint32_t layer = 0; layer < n_layers; ++layer) is_dense.push_back(layer < n_dense);
  }
  for (const bool dense : is_dense) {
    config->feed_forward_kinds.push_back(dense ? FeedForwardKind::kDense : FeedForwardKind::kMoe);
  }
}

void read_latent_attention(const ConfigReader &reader, ModelConfig *config) {
  config->n_heads = reader.require_count("num_attention_heads", kHeadRange);
  config->query_latent = reader.require_count("q_lora_rank", kWidthRange);
  config->kv_latent = reader.require_count("kv_lora_rank", kWidthRange);
  config->nope_width = reader.require_count("qk_nope_head_dim", kHeadWidthRange);
  config->rope_width = reader.require_count("qk_rope_head_dim", kHeadWidthRange);
  config->value_width = reader.require_count("v_head_dim", kHeadWidthRange);
  config->latent_norm_eps = reader.read_positive("latent_norm_eps", config->rms_norm_eps);
  config->has_interleaved_rope = reader.read_flag("rope_interleave", true);
  if (config->rope_width % 2 != 0) reader.fail("qk_rope_head_dim", "an even number is needed");
}

void read_indexer(const ConfigReader &reader, ModelConfig *config) {
  config->index_heads = reader.require_count("index_n_heads", kHeadRange);
  config->index_width = reader.require_count("index_head_dim", kHeadWidthRange);
  config->index_top_k = reader.require_count("index_topk", kPositionRange);
  config->has_interleaved_index_rope = reader.read_flag("indexer_rope_interleave", true);
  if (config->rope_width > config->index_width) {
    reader.fail("index_head_dim", "it must be at least qk_rope_head_dim, which is " +
                                      std::to_string(config->rope_width));
  }
  read_indexer_kinds(reader, config);
}

void check_experts(const ConfigReader &reader, const ModelConfig &config) {
  if (config.n_experts_per_token > config.n_experts) {
    reader.fail("num_experts_per_tok",
                "it exceeds the number of experts, which is " + std::to_string(config.n_experts));
  }
  if (config.n_experts % config.n_groups != 0) {
    reader.fail("n_group", "it must divide the number of experts, which is " +
                               std::to_string(config.n_experts));
  }
  const uint32_t group_size = config.n_experts / config.n_groups;
  if (config.n_groups > 1 && group_size < 2) {
    reader.fail("n_group", "a group must hold at least 2 experts");
  }
  if (config.n_top_groups > config.n_groups) {
    reader.fail("topk_group", "it exceeds n_group, which is " + std::to_string(config.n_groups));
  }
  // bounded: at most n_experts
  const uint32_t n_eligible = config.n_top_groups * group_size;
  if (config.n_experts_per_token > n_eligible) {
    reader.fail("num_experts_per_tok",
                "the chosen groups hold only " + std::to_string(n_eligible) + " experts");
  }
}

void read_experts(const ConfigReader &reader, ModelConfig *config) {
  read_feed_forward_kinds(reader, config);
  config->dense_width = reader.require_count("intermediate_size", {1, 1u << 22});
  config->expert_width = reader.require_count("moe_intermediate_size", kWidthRange);
  config->n_experts = reader.require_count_alias(
      {"n_routed_experts", "num_experts", "num_local_experts"}, kExpertRange);
  config->n_experts_per_token = reader.require_count("num_experts_per_tok", kExpertRange);
  config->n_shared_experts = reader.require_count("n_shared_experts", kSharedExpertRange);
  config->n_groups = reader.read_count("n_group", kExpertRange, 1);
  config->n_top_groups = reader.read_count("topk_group", kExpertRange, 1);
  config->normalises_top_k = reader.read_flag("norm_topk_prob", true);
  config->routed_scale = reader.require_positive("routed_scaling_factor");
  check_experts(reader, *config);
}

ModelConfig parse_glm_moe_dsa(const ConfigReader &reader, const std::string &file) {
  ModelConfig config;
  config.vocabulary_size = reader.require_count("vocab_size", kVocabularyRange);
  config.width = reader.require_count("hidden_size", kWidthRange);
  config.n_layers = reader.require_count("num_hidden_layers", kLayerRange);
  config.max_positions = reader.require_count("max_position_embeddings", kPositionRange);
  config.rms_norm_eps = reader.require_positive("rms_norm_eps");
  config.ties_embedding = reader.read_flag("tie_word_embeddings", false);
  reader.require_text_value("hidden_act", "silu");
  reader.require_text_value("scoring_func", "sigmoid");
  reader.require_text_value("topk_method", "noaux_tc");
  reader.require_flag_value("attention_bias", false);
  reader.require_flag_value("mlp_bias", false);
  read_latent_attention(reader, &config);
  read_rope(reader, file, &config);
  read_indexer(reader, &config);
  read_experts(reader, &config);
  return config;
}

struct Family {
  const char *model_type;
  ModelConfig (*parse)(const ConfigReader &reader, const std::string &file);
};

constexpr Family kFamilies[] = {
    {"glm_moe_dsa", parse_glm_moe_dsa},
};

}  // namespace

const std::vector<std::string> &supported_model_types() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Family &family : kFamilies) all.emplace_back(family.model_type);
    return all;
  }();
  return names;
}

ModelConfig parse_model_config(const JsonValue &root, const std::string &file) {
  if (!root.is_object()) throw_error(StatusCode::kFormat, "%s: not a JSON object", file.c_str());
  const ConfigReader reader(root, file);
  const std::string_view model_type = reader.read_text("model_type").value_or("");
  for (const Family &family : kFamilies) {
    if (model_type != family.model_type) continue;
    ModelConfig config = family.parse(reader, file);
    config.model_type = family.model_type;
    config.stop_ids = read_stop_ids(root, file);
    return config;
  }
  std::string supported;
  for (const std::string &name : supported_model_types()) {
    supported += (supported.empty() ? "" : ", ") + name;
  }
  throw_error(StatusCode::kUnsupported,
              "%s: the architecture '%s' (model_type) is not supported; supported: %s",
              file.c_str(), printable(model_type, 60).c_str(), supported.c_str());
}

}  // namespace colibri

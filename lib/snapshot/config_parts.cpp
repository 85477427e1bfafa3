// SPDX-License-Identifier: Apache-2.0
//
// Ranges stand at the keys and are far above every known model; together they keep a product of any
// two widths and an element size below 2^48. Relations between keys are checked after all keys of a
// part are read. What is listed layer by layer stands in config_layers.cpp.

#include "lib/snapshot/config_parts.h"

#include <cmath>

#include "lib/base/portable_math.h"

namespace colibri {
namespace {

constexpr CountRange kVocabularyRange = {1, 1u << 24};
constexpr CountRange kWidthRange = {1, 1u << 20};
constexpr CountRange kLayerRange = {1, 1024};
constexpr CountRange kPositionRange = {1, INT32_MAX};
constexpr CountRange kHeadRange = {1, 4096};
constexpr CountRange kHeadWidthRange = {1, 1u << 14};
constexpr CountRange kDenseWidthRange = {1, 1u << 22};
constexpr CountRange kExpertRange = {1, 4096};
constexpr CountRange kSharedExpertRange = {0, 64};

// The objects in which keys of rotation may stand, the strongest first, the top level last.
class RotaryKeys {
 public:
  explicit RotaryKeys(const ConfigReader &reader) {
    for (const char *key : {"rope_parameters", "rope_scaling"}) {
      if (!reader.has(key)) continue;
      places_.push_back(reader.nested(key));
      // One object per kind of layer, as newer files have it.
      for (const char *kind : {"full_attention", "sliding_attention"}) {
        places_.back().require_absent(kind);
      }
    }
    n_nested_ = places_.size();
    places_.push_back(reader);
  }

  // Where the value of `key` stands; the top level if nowhere.
  const ConfigReader &at(const char *key) const {
    for (const ConfigReader &place : places_) {
      if (place.has(key)) return place;
    }
    return places_.back();
  }

  bool is_yarn() const {
    for (size_t i = 0; i < n_nested_; ++i) {
      const ConfigReader &place = places_[i];
      if (!place.has("rope_type") && !place.has("type")) continue;
      std::optional<bool> is_yarn;
      for (const char *key : {"rope_type", "type"}) {
        if (!place.has(key)) continue;
        const std::string_view type = *place.read_text(key);
        if (type != "default" && type != "yarn") {
          place.fail_unsupported(key, "this version computes 'default' and 'yarn' only");
        }
        if (is_yarn && *is_yarn != (type == "yarn")) place.fail(key, "it contradicts rope_type");
        is_yarn = type == "yarn";
      }
      return *is_yarn;
    }
    return false;
  }

 private:
  std::vector<ConfigReader> places_;
  size_t n_nested_ = 0;
};

// What YaRN makes of a factor: 0.1 * weight * ln(factor) + 1.
double yarn_scale(double factor, double weight) {
  // bounded: floating point
  return factor <= 1.0 ? 1.0 : 0.1 * weight * portable_log(factor) + 1.0;
}

// A number of 0 or more; 0 and absence are one.
double read_yarn_weight(const RotaryKeys &keys, const char *key) {
  const ConfigReader &reader = keys.at(key);
  const double weight = reader.read_number(key).value_or(0.0f);
  if (weight < 0.0) reader.fail(key, "a number of 0 or more is needed");
  return weight;
}

void read_yarn(const RotaryKeys &keys, ModelConfig *config) {
  RotaryConfig &rotary = config->rotary;
  rotary.scaling = RotaryScaling::kYarn;
  const char *const original = "original_max_position_embeddings";
  rotary.original_positions = keys.at(original).require_count(original, kPositionRange);
  rotary.factor =
      keys.at("factor").read_positive("factor", static_cast<float>(config->max_positions) /
                                                    static_cast<float>(rotary.original_positions));
  if (rotary.factor < 1.0f) keys.at("factor").fail("factor", "a number of 1 or more is needed");
  rotary.beta_fast = keys.at("beta_fast").read_positive("beta_fast", 32.0f);
  rotary.beta_slow = keys.at("beta_slow").read_positive("beta_slow", 1.0f);
  rotary.truncates = keys.at("truncate").read_flag("truncate", true);
  if (rotary.theta <= 1.0f) {
    keys.at("rope_theta").fail("rope_theta", "with yarn a number above 1 is needed");
  }
  const double all_dim = read_yarn_weight(keys, "mscale_all_dim");
  const double mscale = read_yarn_weight(keys, "mscale");
  double amplitude = yarn_scale(rotary.factor, 1.0);
  if (mscale != 0.0 && all_dim != 0.0) {
    amplitude = yarn_scale(rotary.factor, mscale) / yarn_scale(rotary.factor, all_dim);
  }
  rotary.amplitude =
      keys.at("attention_factor").read_positive("attention_factor", static_cast<float>(amplitude));
  if (config->attention == AttentionKind::kLatent && all_dim != 0.0) {
    const double scale = yarn_scale(rotary.factor, all_dim);
    // bounded: floating point
    config->softmax_factor = static_cast<float>(scale * scale);
  }
}

// Rotated elements of a head of grouped attention.
uint32_t read_partial_width(const RotaryKeys &keys, std::optional<float> if_absent,
                            uint32_t head_width) {
  const char *const key = "partial_rotary_factor";
  const ConfigReader &reader = keys.at(key);
  const float factor = reader.read_positive(key, if_absent.value_or(1.0f));
  if (factor > 1.0f) reader.fail(key, "a number above 0 and at most 1 is needed");
  if (!if_absent && factor != 1.0f) {
    reader.fail_unsupported(key, "models of this architecture rotate whole heads");
  }
  // bounded: the factor is checked, a part of the head
  const uint32_t width = static_cast<uint32_t>(static_cast<float>(head_width) * factor);
  if (width == 0 || width % 2 != 0) {
    reader.fail(key, "of a head of " + std::to_string(head_width) + " elements it rotates " +
                         std::to_string(width) + ", and an even number is needed");
  }
  return width;
}

void check_groups(const ConfigReader &reader, const ModelConfig &config) {
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

}  // namespace

void read_sizes(const ConfigReader &reader, ModelConfig *config) {
  config->vocabulary_size = reader.require_count("vocab_size", kVocabularyRange);
  config->width = reader.require_count("hidden_size", kWidthRange);
  config->n_layers = reader.require_count("num_hidden_layers", kLayerRange);
  config->max_positions = reader.require_count("max_position_embeddings", kPositionRange);
  config->rms_norm_eps = reader.require_positive("rms_norm_eps");
  config->ties_embedding = reader.read_flag("tie_word_embeddings", false);
  reader.require_text_value("hidden_act", "silu");
  reader.require_flag_value("mlp_bias", false);
}

void read_latent_attention(const ConfigReader &reader, LatentOptions options, ModelConfig *config) {
  config->attention = AttentionKind::kLatent;
  reader.require_flag_value("attention_bias", false);
  config->n_heads = reader.require_count("num_attention_heads", kHeadRange);
  if (!options.may_lack_query_latent || reader.has("q_lora_rank")) {
    config->query_latent = reader.require_count("q_lora_rank", kWidthRange);
  }
  config->kv_latent = reader.require_count("kv_lora_rank", kWidthRange);
  config->nope_width = reader.require_count("qk_nope_head_dim", kHeadWidthRange);
  config->rotary.width = reader.require_count("qk_rope_head_dim", kHeadWidthRange);
  config->value_width = reader.require_count("v_head_dim", kHeadWidthRange);
  config->latent_norm_eps = reader.read_positive("latent_norm_eps", config->rms_norm_eps);
  if (config->rotary.width % 2 != 0) reader.fail("qk_rope_head_dim", "an even number is needed");
}

void read_grouped_attention(const ConfigReader &reader, ModelConfig *config) {
  config->attention = AttentionKind::kGrouped;
  config->n_heads = reader.require_count("num_attention_heads", kHeadRange);
  config->n_kv_heads = reader.require_count("num_key_value_heads", kHeadRange);
  if (config->n_heads % config->n_kv_heads != 0) {
    reader.fail("num_key_value_heads",
                "it must divide num_attention_heads, which is " + std::to_string(config->n_heads));
  }
  if (reader.has("head_dim")) {
    config->head_width = reader.require_count("head_dim", kHeadWidthRange);
    return;
  }
  config->head_width = config->width / config->n_heads;
  if (config->width % config->n_heads != 0 || config->head_width > kHeadWidthRange.most) {
    reader.fail("head_dim", "hidden_size / num_attention_heads is no width of a head");
  }
}

void read_rotary(const ConfigReader &reader, RotaryOptions options, ModelConfig *config) {
  const RotaryKeys keys(reader);
  RotaryConfig &rotary = config->rotary;
  const ConfigReader &theta = keys.at("rope_theta");
  rotary.theta = options.theta_if_absent
                     ? theta.read_positive("rope_theta", *options.theta_if_absent)
                     : theta.require_positive("rope_theta");
  rotary.is_interleaved = reader.read_flag("rope_interleave", options.is_interleaved);
  if (config->attention == AttentionKind::kGrouped) {
    rotary.width = read_partial_width(keys, options.partial_if_absent, config->head_width);
  }
  if (keys.is_yarn()) read_yarn(keys, config);
}

void read_experts(const ConfigReader &reader, const char *width_key, ModelConfig *config) {
  for (const FeedForwardKind kind : config->feed_forward_kinds) {
    if (kind != FeedForwardKind::kDense || config->dense_width != 0) continue;
    config->dense_width = reader.require_count("intermediate_size", kDenseWidthRange);
  }
  config->expert_width = reader.require_count(width_key, kWidthRange);
  config->n_experts = reader.require_count_alias(
      {"n_routed_experts", "num_experts", "num_local_experts"}, kExpertRange);
  config->n_experts_per_token = reader.require_count("num_experts_per_tok", kExpertRange);
  if (config->n_experts_per_token > config->n_experts) {
    reader.fail("num_experts_per_tok",
                "it exceeds the number of experts, which is " + std::to_string(config->n_experts));
  }
}

void read_sigmoid_router(const ConfigReader &reader, ModelConfig *config) {
  reader.require_text_value("scoring_func", "sigmoid");
  reader.require_text_value("topk_method", "noaux_tc");
  config->router = RouterKind::kSigmoid;
  config->n_groups = reader.read_count("n_group", kExpertRange, 1);
  config->n_top_groups = reader.read_count("topk_group", kExpertRange, 1);
  config->normalises_top_k = reader.read_flag("norm_topk_prob", true);
  config->routed_scale = reader.require_positive("routed_scaling_factor");
  // bounded: by the two ranges
  config->shared_width =
      // bounded: by the ranges of both
      reader.require_count("n_shared_experts", kSharedExpertRange) * config->expert_width;
  check_groups(reader, *config);
}

}  // namespace colibri

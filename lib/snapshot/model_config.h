// SPDX-License-Identifier: Apache-2.0
//
// ModelConfig: the description of a model as plain data: sizes, and a choice for each part in which
// families differ. It is all that the code behind lib/snapshot knows of a family; only reports and
// the look-up of names read model_type. family.h has the functions that fill it from config.json.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/layer_math.h"
#include "lib/snapshot/json.h"

namespace colibri {

enum class AttentionKind : uint8_t {
  kLatent,   // multi-head latent attention (MLA), absorbed form
  kGrouped,  // query heads in groups that share a key/value head (GQA); one group: MHA
};
enum class IndexerKind : uint8_t { kNone, kFull, kShared };
enum class FeedForwardKind : uint8_t { kDense, kMoe };
// RMSNorm of queries and keys of grouped attention, before rotation.
enum class QueryKeyNorm : uint8_t {
  kNone,
  kPerHead,  // each head by itself, one weight [head_width] for all of them
  kWhole,    // all heads together, weights [H * head_width] and [Hkv * head_width]
};
enum class RotaryScaling : uint8_t { kNone, kYarn };

// Rotation of the whole model. Everything that a config may leave open is resolved here.
struct RotaryConfig {
  float theta = 0;
  uint32_t width = 0;          // rotated elements of a head, even
  bool is_interleaved = true;  // adjacent pairs (layout A); false: half-split (layout B)
  RotaryScaling scaling = RotaryScaling::kNone;
  // kYarn only.
  float factor = 1;
  uint32_t original_positions = 0;  // original_max_position_embeddings
  float beta_fast = 32, beta_slow = 1;
  bool truncates = true;  // the two corrections are rounded outwards to whole numbers
  // Multiplied into cosines and sines (A of YaRN); 1 without scaling.
  float amplitude = 1;

  bool operator==(const RotaryConfig &) const = default;
};

struct ModelConfig {
  std::string model_type;  // "glm_moe_dsa"; a name of family.h
  uint32_t vocabulary_size = 0;
  uint32_t width = 0;          // hidden_size, D
  uint32_t n_layers = 0;       // trunk only, without the MTP layer
  uint32_t max_positions = 0;  // max_position_embeddings
  float rms_norm_eps = 0;
  bool ties_embedding = false;  // tie_word_embeddings

  // Attention of every layer.
  AttentionKind attention = AttentionKind::kLatent;
  uint32_t n_heads = 0;
  // Of a head, multiplied into 1 / sqrt(width of an unabsorbed query): m^2 of YaRN in latent
  // attention, else 1.
  float softmax_factor = 1;
  RotaryConfig rotary;
  // One per layer: keys that a query sees, itself included; 0: all. Latent attention: all 0.
  std::vector<uint32_t> windows;

  // Latent attention only. The last rotary.width elements of a query head are rotated.
  uint32_t query_latent = 0;  // q_lora_rank; 0: one query matrix instead of two and a norm
  uint32_t kv_latent = 0;     // kv_lora_rank
  uint32_t nope_width = 0;    // qk_nope_head_dim
  uint32_t value_width = 0;   // v_head_dim
  float latent_norm_eps = 0;  // key `latent_norm_eps` where present, else rms_norm_eps

  // Grouped attention only. The first rotary.width elements of a head are rotated.
  uint32_t n_kv_heads = 0;  // divides n_heads; query head h has key/value head h / (H / Hkv)
  uint32_t head_width = 0;  // head_dim; H * head_width need not be the model's width
  QueryKeyNorm query_key_norm = QueryKeyNorm::kNone;
  bool has_query_bias = false;   // on queries, keys and values
  bool has_output_bias = false;  // on the output projection
  bool has_sinks = false;        // one learned logit per query head, in the denominator only

  // Sparse attention indexer (latent attention only). index_top_k 0: the family has none.
  uint32_t index_heads = 0;
  uint32_t index_width = 0;  // index_head_dim; its first rotary.width elements are rotated
  uint32_t index_top_k = 0;
  bool has_interleaved_index_rope = true;
  std::vector<IndexerKind> indexer_kinds;  // one per layer; empty without indexer

  // Feed-forward.
  std::vector<FeedForwardKind> feed_forward_kinds;  // one per layer
  uint32_t dense_width = 0;                         // of dense layers; 0 if there are none
  uint32_t expert_width = 0;                        // F
  uint32_t n_experts = 0;                           // E
  uint32_t n_experts_per_token = 0;                 // K
  Activation expert_activation;                     // dense layers and shared experts: always kSilu
  bool has_expert_bias = false;                     // on gate, up and down of routed experts
  uint32_t shared_width = 0;                        // of all shared experts together; 0: none
  bool has_shared_gate = false;                     // their output times sigmoid(one logit per row)

  // Router.
  RouterKind router = RouterKind::kSigmoid;  // kSigmoid: has a selection bias
  bool has_router_bias = false;              // added to the logits
  uint32_t n_groups = 1;
  uint32_t n_top_groups = 1;     // topk_group
  bool normalises_top_k = true;  // norm_topk_prob
  float routed_scale = 1.0f;     // routed_scaling_factor

  std::vector<int64_t> stop_ids;  // eos_token_id of config.json alone, number or list

  bool operator==(const ModelConfig &) const = default;

  // Width of an unabsorbed query head, whose root divides scores.
  uint32_t query_head_width() const noexcept {
    return attention == AttentionKind::kLatent ? nope_width + rotary.width : head_width;
  }
  // Width of a head of what the output projection takes.
  uint32_t value_head_width() const noexcept {
    return attention == AttentionKind::kLatent ? value_width : head_width;
  }
};

// Reads and validates config.json. Throws Error: kUnsupported (architecture: the message lists the
// supported ones; a value that changes the mathematics and is not computed, as rope type,
// hidden_act, scoring_func, topk_method, attention_bias, clip_qkv: key and value), kFormat (a
// required number absent, of the wrong kind, out of range, or in contradiction with another: key,
// value, rule). Limits are stated in config_parts.h and keep every later product below 2^63.
ModelConfig parse_model_config(const JsonValue &root, const std::string &file);

// Over every member but stop_ids: an edited config.json gives KV entries another meaning even where
// their form stays.
uint64_t hash_model_config(const ModelConfig &config) noexcept;

}  // namespace colibri

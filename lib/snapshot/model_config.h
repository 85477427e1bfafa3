// SPDX-License-Identifier: Apache-2.0
//
// ModelConfig: the validated hyper-parameters of a model as plain data, and the reader of
// config.json. Keys and their traps are described in docs/models.md; unknown keys are ignored,
// unknown values of keys that change the mathematics are refused by name.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/snapshot/json.h"

namespace colibri {

enum class IndexerKind : uint8_t { kNone, kFull, kShared };
enum class FeedForwardKind : uint8_t { kDense, kMoe };

struct ModelConfig {
  std::string model_type;  // "glm_moe_dsa"
  uint32_t vocabulary_size = 0;
  uint32_t width = 0;          // hidden_size, D
  uint32_t n_layers = 0;       // trunk only, without the MTP layer
  uint32_t max_positions = 0;  // max_position_embeddings
  float rms_norm_eps = 0;
  bool ties_embedding = false;  // tie_word_embeddings

  // Multi-head latent attention.
  uint32_t n_heads = 0;
  uint32_t query_latent = 0;  // q_lora_rank
  uint32_t kv_latent = 0;     // kv_lora_rank
  uint32_t nope_width = 0;    // qk_nope_head_dim
  uint32_t rope_width = 0;    // qk_rope_head_dim, even
  uint32_t value_width = 0;   // v_head_dim
  float latent_norm_eps = 0;  // key `latent_norm_eps` where present, else rms_norm_eps
  float rope_theta = 0;
  bool has_interleaved_rope = true;  // adjacent pairs (layout A); false: half-split

  // Sparse attention indexer. index_top_k 0: the family has none.
  uint32_t index_heads = 0;
  uint32_t index_width = 0;  // index_head_dim; its first rope_width elements are rotated
  uint32_t index_top_k = 0;
  bool has_interleaved_index_rope = true;
  std::vector<IndexerKind> indexer_kinds;  // one per layer

  // Feed-forward.
  std::vector<FeedForwardKind> feed_forward_kinds;  // one per layer
  uint32_t dense_width = 0;                         // intermediate_size
  uint32_t expert_width = 0;                        // moe_intermediate_size, F
  uint32_t n_experts = 0;                           // E
  uint32_t n_experts_per_token = 0;                 // K
  uint32_t n_shared_experts = 0;
  uint32_t n_groups = 1;
  uint32_t n_top_groups = 1;     // topk_group
  bool normalises_top_k = true;  // norm_topk_prob
  float routed_scale = 1.0f;     // routed_scaling_factor

  std::vector<int64_t> stop_ids;  // eos_token_id of config.json alone, number or list

  bool operator==(const ModelConfig &) const = default;
};

// Reads and validates config.json. Throws Error: kUnsupported (architecture: the message lists the
// supported ones; rope type, hidden_act, scoring_func, topk_method, attention_bias: key and value),
// kFormat (a required number absent, of the wrong kind, out of range, or in contradiction with
// another: key, value, rule). Limits are stated beside the checks in model_config.cpp and keep
// every later product below 2^63.
ModelConfig parse_model_config(const JsonValue &root, const std::string &file);

// Names of supported model_type values, for messages and docs.
const std::vector<std::string> &supported_model_types();

}  // namespace colibri

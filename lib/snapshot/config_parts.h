// SPDX-License-Identifier: Apache-2.0
//
// The parts that families put together: each reads the keys of one subject into a ModelConfig, with
// its ranges, its aliases and its refusals. Numbers that change the result and are absent are an
// error, unless every published file that lacks them means the same; a default is then an argument
// that the family gives. All throw as parse_model_config(). Order of calls: read_sizes(),
// attention, read_rotary(), layers, experts, router.

#pragma once

#include <functional>
#include <optional>

#include "lib/snapshot/config_reader.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

// vocab_size, hidden_size, num_hidden_layers, max_position_embeddings, rms_norm_eps,
// tie_word_embeddings (absent: false); hidden_act must be silu, mlp_bias false.
void read_sizes(const ConfigReader &reader, ModelConfig *config);

// num_attention_heads, q_lora_rank (null only if may_lack_query_latent), kv_lora_rank, the three
// head widths (head_dim is ignored), latent_norm_eps; attention_bias must be false.
struct LatentOptions {
  bool may_lack_query_latent = false;
};
void read_latent_attention(const ConfigReader &reader, LatentOptions options, ModelConfig *config);

// num_attention_heads, num_key_value_heads (must divide it), head_dim (absent: width / heads, which
// must be whole).
void read_grouped_attention(const ConfigReader &reader, ModelConfig *config);

// rope_parameters wins over rope_scaling, which wins over the top level, key by key. A type other
// than default and yarn is Error(kUnsupported) and named. factor null: max_positions /
// original_max_position_embeddings. Latent attention with yarn and a non-zero mscale_all_dim also
// sets softmax_factor.
struct RotaryOptions {
  bool is_interleaved = false;  // used where `rope_interleave` is absent
  // partial_rotary_factor; nullopt: the whole head, and a factor other than 1 is unsupported.
  // Latent attention: ignored.
  std::optional<float> partial_if_absent = std::nullopt;
  std::optional<float> theta_if_absent = std::nullopt;  // nullopt: rope_theta is required
};
void read_rotary(const ConfigReader &reader, RotaryOptions options, ModelConfig *config);

// layer_types, one name per layer, wins: full_attention, sliding_attention (not with latent
// attention), indexed_attention (only with it). Else `is_windowed(layer)`; an empty function: none.
// is_on false: no windows at all. sliding_window 0 or null: none, and a layer that layer_types
// calls windowed is then Error(kFormat).
void read_windows(const ConfigReader &reader, bool is_on,
                  const std::function<bool(uint32_t layer)> &is_windowed, ModelConfig *config);

// index_n_heads, index_head_dim, index_topk, indexer_rope_interleave (absent: is_interleaved);
// which layers are full from indexer_types, index_topk_pattern or the frequency formula, which
// without its keys makes all of them full.
void read_indexer(const ConfigReader &reader, bool is_interleaved, ModelConfig *config);

// Which layers are dense. Each reads its own keys; mlp_layer_types wins over all of them.
// first_k_dense_replace; nullopt: it is required.
void read_first_dense(const ConfigReader &reader, std::optional<uint32_t> if_absent,
                      ModelConfig *config);
// decoder_sparse_step (absent: 1), mlp_only_layers (absent: none).
void read_sparse_step(const ConfigReader &reader, ModelConfig *config);
void set_all_sparse(ModelConfig *config);

// The number of experts (n_routed_experts, num_experts, num_local_experts: those present must
// agree), num_experts_per_tok, expert width from `width_key`. intermediate_size is the dense width
// where there is a dense layer.
void read_experts(const ConfigReader &reader, const char *width_key, ModelConfig *config);

// n_group, topk_group, norm_topk_prob (absent: true), routed_scaling_factor (required);
// scoring_func must be sigmoid, topk_method noaux_tc where present. n_shared_experts.
void read_sigmoid_router(const ConfigReader &reader, ModelConfig *config);

}  // namespace colibri

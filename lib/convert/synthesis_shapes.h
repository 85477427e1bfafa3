// SPDX-License-Identifier: Apache-2.0
//
// The layer shapes that can be synthesised. Experts, router, embedding and head have the published
// sizes. All layers are MoE layers and all attention is latent attention, the only kind that the
// library computes: where the original has another kind, its sizes are chosen so that a layer's
// attention weights have nearly as many bytes, and a position costs nearly as many multiply-adds.
// The KV state is smaller then. colibri-tiny, the demonstration model, is a shape of a few MiB.

#pragma once

#include <cstdint>
#include <string>

#include "lib/snapshot/model_config.h"

namespace colibri {

// `width` is a multiple of 64; other widths that are depth or columns of a packed matrix, of 16.
struct SynthesisShape {
  const char *name = "";
  uint32_t width = 0;         // D
  uint32_t expert_width = 0;  // F
  uint32_t n_experts = 0;     // E
  uint32_t n_experts_per_token = 0;
  uint32_t n_shared_experts = 0;
  double routed_scale = 1.0;
  uint32_t vocabulary_size = 0;
  uint32_t max_positions = 0;
  double rope_theta = 10000.0;

  uint32_t n_heads = 0;
  uint32_t query_latent = 0;
  uint32_t kv_latent = 0;
  uint32_t nope_width = 0;
  uint32_t rope_width = 0;
  uint32_t value_width = 0;

  // The indexer that every index_frequency-th layer has, from the first on. The architecture has
  // none without, so shapes of others have a small one that selects every position (index_top_k =
  // max_positions), in the first layer alone (index_frequency 0).
  uint32_t index_heads = 0;
  uint32_t index_width = 0;
  uint32_t index_top_k = 0;
  uint32_t index_frequency = 0;
};

// What decides the bytes of a synthesised snapshot, beside the shape.
struct SynthesisChoices {
  uint32_t n_layers = 0;
  double skew = 0.0;
  double repeat = 0.0;
  uint64_t seed = 0;
};

// "qwen3-30b, glm-5.2, mixtral-8x7b, colibri-tiny".
std::string synthesis_shapes();
// Throws Error(kArgument) for another name; the message lists those that there are.
const SynthesisShape &find_synthesis_shape(const std::string &name);

// The text of config.json: what a reader needs, and under "colibri_synthetic" how it was made, in
// numbers and in words.
std::string synthesis_config_text(const SynthesisShape &shape, const SynthesisChoices &choices);
// The same as read.
ModelConfig synthesis_config(const std::string &config_text);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Weights of one layer's attention, original and latent form: qwen3-30b 18.9 M and 19.0 M,
// mixtral-8x7b 41.9 M and 41.9 M. Multiply-adds per attended position: 8192 and 10240.

#include "lib/convert/synthesis_shapes.h"

#include "lib/base/status.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

// Counts every change of what the same choices give.
constexpr uint32_t kGenerator = 1;

constexpr SynthesisShape kShapes[] = {
    {
        .name = "qwen3-30b",
        .width = 2048,
        .expert_width = 768,
        .n_experts = 128,
        .n_experts_per_token = 8,
        .vocabulary_size = 151936,
        .max_positions = 40960,
        .rope_theta = 1e6,
        .n_heads = 32,
        .query_latent = 1536,
        .kv_latent = 128,
        .nope_width = 64,
        .rope_width = 64,
        .value_width = 128,
        .index_heads = 1,
        .index_width = 64,
        .index_top_k = 40960,
    },
    {
        .name = "glm-5.2",
        .width = 6144,
        .expert_width = 2048,
        .n_experts = 256,
        .n_experts_per_token = 8,
        .n_shared_experts = 1,
        .routed_scale = 2.5,
        .vocabulary_size = 154880,
        .max_positions = 1048576,
        .rope_theta = 8e6,
        .n_heads = 64,
        .query_latent = 2048,
        .kv_latent = 512,
        .nope_width = 192,
        .rope_width = 64,
        .value_width = 256,
        .index_heads = 32,
        .index_width = 128,
        .index_top_k = 2048,
        .index_frequency = 4,
    },
    {
        .name = "mixtral-8x7b",
        .width = 4096,
        .expert_width = 14336,
        .n_experts = 8,
        .n_experts_per_token = 2,
        .vocabulary_size = 32000,
        .max_positions = 32768,
        .rope_theta = 1e6,
        .n_heads = 32,
        .query_latent = 2880,
        .kv_latent = 128,
        .nope_width = 64,
        .rope_width = 64,
        .value_width = 128,
        .index_heads = 1,
        .index_width = 64,
        .index_top_k = 32768,
    },
    {
        .name = "colibri-tiny",
        .width = 192,
        .expert_width = 64,
        .n_experts = 32,
        .n_experts_per_token = 4,
        .n_shared_experts = 1,
        .routed_scale = 2.5,
        .vocabulary_size = 2048,
        .max_positions = 1024,
        .rope_theta = 1000,
        .n_heads = 4,
        .query_latent = 128,
        .kv_latent = 64,
        .nope_width = 48,
        .rope_width = 16,
        .value_width = 64,
        .index_heads = 4,
        .index_width = 32,
        .index_top_k = 64,
        .index_frequency = 4,
    },
};

constexpr const char *kNote =
    "Random weights with the layer shape of a published model, for measuring machines; the text "
    "they generate means nothing. Experts, router, embedding and head have the published sizes. "
    "All layers are MoE layers. Attention is latent attention with about as many bytes of weights "
    "as the original's.";

void write_architecture(const SynthesisShape &shape, JsonWriter *json) {
  json->key("model_type").value("glm_moe_dsa");
  json->key("hidden_act").value("silu");
  json->key("rms_norm_eps").value(1e-5);
  json->key("tie_word_embeddings").value(false);
  json->key("vocab_size").value(shape.vocabulary_size);
  json->key("hidden_size").value(shape.width);
  json->key("max_position_embeddings").value(shape.max_positions);
  json->key("rope_theta").value(shape.rope_theta);
  json->key("num_attention_heads").value(shape.n_heads);
  json->key("q_lora_rank").value(shape.query_latent);
  json->key("kv_lora_rank").value(shape.kv_latent);
  json->key("qk_nope_head_dim").value(shape.nope_width);
  json->key("qk_rope_head_dim").value(shape.rope_width);
  json->key("v_head_dim").value(shape.value_width);
}

// Layer 0 has an indexer, and then every index_frequency-th; 4096 is the largest distance that a
// reader takes, more than there can be layers.
void write_indexer(const SynthesisShape &shape, JsonWriter *json) {
  json->key("index_n_heads").value(shape.index_heads);
  json->key("index_head_dim").value(shape.index_width);
  json->key("index_topk").value(shape.index_top_k);
  json->key("index_topk_freq").value(shape.index_frequency == 0 ? 4096 : shape.index_frequency);
  json->key("index_skip_topk_offset").value(1u);
}

void write_experts(const SynthesisShape &shape, JsonWriter *json) {
  json->key("first_k_dense_replace").value(0u);
  json->key("intermediate_size").value(shape.expert_width);
  json->key("moe_intermediate_size").value(shape.expert_width);
  json->key("n_routed_experts").value(shape.n_experts);
  json->key("num_experts_per_tok").value(shape.n_experts_per_token);
  json->key("n_shared_experts").value(shape.n_shared_experts);
  json->key("scoring_func").value("sigmoid");
  json->key("topk_method").value("noaux_tc");
  json->key("norm_topk_prob").value(true);
  json->key("routed_scaling_factor").value(shape.routed_scale);
}

}  // namespace

std::string synthesis_shapes() {
  std::string names;
  for (const SynthesisShape &shape : kShapes) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

const SynthesisShape &find_synthesis_shape(const std::string &name) {
  for (const SynthesisShape &shape : kShapes) {
    if (name == shape.name) return shape;
  }
  throw_error(StatusCode::kArgument, "there is no shape '%s'; give one of %s",
              printable(name, 60).c_str(), synthesis_shapes().c_str());
}

std::string synthesis_config_text(const SynthesisShape &shape, const SynthesisChoices &choices) {
  JsonWriter json;
  json.begin_object();
  write_architecture(shape, &json);
  json.key("num_hidden_layers").value(choices.n_layers);
  write_indexer(shape, &json);
  write_experts(shape, &json);
  json.key("colibri_synthetic").begin_object();
  json.key("note").value(kNote);
  json.key("generator").value(kGenerator);
  json.key("shape").value(shape.name);
  json.key("skew").value(choices.skew).key("repeat").value(choices.repeat);
  json.key("seed").value(choices.seed);
  json.end_object().end_object();
  return json.text() + "\n";
}

ModelConfig synthesis_config(const std::string &config_text) {
  const JsonDocument document = JsonDocument::parse(config_text, "config.json");
  return parse_model_config(document.root(), document.name());
}

}  // namespace colibri

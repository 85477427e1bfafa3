// SPDX-License-Identifier: Apache-2.0
//
// Families with grouped-query attention. A family is the list of its parts and a row of the table.

#include "lib/snapshot/config_parts.h"
#include "lib/snapshot/family.h"

namespace colibri {
namespace {

constexpr CountRange kWidthRange = {1, 1u << 20};
constexpr float kUsualTheta = 10000.0f;

constexpr NameTable kUsualNames[] = {{}};

// w1 is the gate, w3 the up and w2 the down matrix. Newer files have the usual names.
constexpr NameTable kMixtralNames[] = {{.router = "block_sparse_moe.gate.weight",
                                        .experts = "block_sparse_moe.experts.",
                                        .expert_gate = "w1.weight",
                                        .expert_up = "w3.weight",
                                        .expert_down = "w2.weight"},
                                       {}};

constexpr NameTable kQwen2Names[] = {{.shared_gate_matrix = "mlp.shared_expert.gate_proj.weight",
                                      .shared_up_matrix = "mlp.shared_expert.up_proj.weight",
                                      .shared_down_matrix = "mlp.shared_expert.down_proj.weight"}};

constexpr NameTable kGptOssNames[] = {
    {.router = "mlp.router.weight", .fused_order = FusedOrder::kAlternating}};

ModelConfig parse_mixtral(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  reader.require_flag_value("attention_bias", false);
  read_grouped_attention(reader, &config);
  read_rotary(reader, {}, &config);
  read_windows(
      reader, true, [](uint32_t) { return true; }, &config);
  set_all_sparse(&config);
  read_experts(reader, "intermediate_size", &config);
  config.router = RouterKind::kSoftmax;
  config.normalises_top_k = true;
  return config;
}

ModelConfig parse_qwen3_moe(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  reader.require_flag_value("attention_bias", false);
  read_grouped_attention(reader, &config);
  config.query_key_norm = QueryKeyNorm::kPerHead;
  read_rotary(reader, {.theta_if_absent = kUsualTheta}, &config);
  const bool slides = reader.read_flag("use_sliding_window", false);
  read_windows(
      reader, slides, [](uint32_t) { return true; }, &config);
  read_sparse_step(reader, &config);
  read_experts(reader, "moe_intermediate_size", &config);
  config.router = RouterKind::kSoftmax;
  config.normalises_top_k = reader.read_flag("norm_topk_prob", false);
  return config;
}

ModelConfig parse_qwen2_moe(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  read_grouped_attention(reader, &config);
  config.has_query_bias = reader.read_flag("qkv_bias", true);
  read_rotary(reader, {.theta_if_absent = kUsualTheta}, &config);
  const bool slides = reader.read_flag("use_sliding_window", false);
  const uint32_t n_slidable = reader.read_count("max_window_layers", {0, 4096}, 28);
  read_windows(
      reader, slides, [=](uint32_t layer) { return layer % 2 == 0 && layer < n_slidable; },
      &config);
  read_sparse_step(reader, &config);
  read_experts(reader, "moe_intermediate_size", &config);
  config.shared_width = reader.require_count("shared_expert_intermediate_size", kWidthRange);
  config.has_shared_gate = true;
  config.router = RouterKind::kSoftmax;
  config.normalises_top_k = reader.read_flag("norm_topk_prob", false);
  return config;
}

ModelConfig parse_olmoe(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  reader.require_flag_value("attention_bias", false);
  reader.require_absent("clip_qkv");
  read_grouped_attention(reader, &config);
  config.query_key_norm = QueryKeyNorm::kWhole;
  read_rotary(reader, {.theta_if_absent = kUsualTheta}, &config);
  read_windows(reader, false, nullptr, &config);
  set_all_sparse(&config);
  read_experts(reader, "intermediate_size", &config);
  config.router = RouterKind::kSoftmax;
  config.normalises_top_k = reader.read_flag("norm_topk_prob", false);
  return config;
}

// Half of each head is rotated, in halves: neither is as in the dense glm4.
ModelConfig parse_glm4_moe(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  read_grouped_attention(reader, &config);
  config.has_query_bias = reader.read_flag("attention_bias", false);
  if (reader.read_flag("use_qk_norm", false)) config.query_key_norm = QueryKeyNorm::kPerHead;
  read_rotary(reader, {.partial_if_absent = 0.5f}, &config);
  read_windows(reader, false, nullptr, &config);
  read_first_dense(reader, std::nullopt, &config);
  read_experts(reader, "moe_intermediate_size", &config);
  read_sigmoid_router(reader, &config);
  return config;
}

ModelConfig parse_gpt_oss(const ConfigReader &reader) {
  ModelConfig config;
  read_sizes(reader, &config);
  reader.require_flag_value("attention_bias", true);
  read_grouped_attention(reader, &config);
  config.has_query_bias = true;
  config.has_output_bias = true;
  config.has_sinks = true;
  read_rotary(reader, {}, &config);
  read_windows(
      reader, true, [](uint32_t layer) { return layer % 2 == 0; }, &config);
  set_all_sparse(&config);
  read_experts(reader, "intermediate_size", &config);
  config.expert_activation.kind = ActivationKind::kClampedSwish;
  config.expert_activation.limit = reader.require_positive("swiglu_limit");
  config.expert_activation.alpha = reader.read_positive("swiglu_alpha", 1.702f);
  config.has_expert_bias = true;
  config.router = RouterKind::kSoftmaxOfChosen;
  config.has_router_bias = true;
  return config;
}

constexpr Family kFamilies[] = {
    {"mixtral", "Mixtral 8x7B, 8x22B", parse_mixtral, kMixtralNames, nullptr},
    {"qwen2_moe", "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B", parse_qwen2_moe, kQwen2Names, nullptr},
    {"qwen3_moe", "Qwen3-30B-A3B, 235B-A22B, Coder-480B", parse_qwen3_moe, kUsualNames, nullptr},
    {"olmoe", "OLMoE-1B-7B-0924, -0125", parse_olmoe, kUsualNames, nullptr},
    {"glm4_moe", "GLM-4.5, 4.5-Air, 4.6, 4.7", parse_glm4_moe, kUsualNames, nullptr},
    {"gpt_oss", "gpt-oss-20b, -120b", parse_gpt_oss, kGptOssNames, nullptr},
};

}  // namespace

std::span<const Family> grouped_families() noexcept {
  return kFamilies;
}

}  // namespace colibri

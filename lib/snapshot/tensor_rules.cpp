// SPDX-License-Identifier: Apache-2.0
//
// Extents are functions of the config, whose numbers model_config.cpp bounds, so that no product
// here can overflow.

#include "lib/snapshot/tensor_rules.h"

#include <charconv>

namespace colibri {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";
constexpr std::string_view kExpertInfix = "mlp.experts.";

uint64_t width(const ModelConfig &c) {
  return c.width;
}
uint64_t query_latent(const ModelConfig &c) {
  return c.query_latent;
}
uint64_t kv_latent(const ModelConfig &c) {
  return c.kv_latent;
}
uint64_t query_width(const ModelConfig &c) {
  // bounded: by the limits of model_config.cpp
  return static_cast<uint64_t>(c.n_heads) * (static_cast<uint64_t>(c.nope_width) + c.rotary.width);
}
uint64_t kv_a_rows(const ModelConfig &c) {
  return static_cast<uint64_t>(c.kv_latent) + c.rotary.width;
}
uint64_t kv_b_rows(const ModelConfig &c) {
  // bounded: by the limits of model_config.cpp
  return static_cast<uint64_t>(c.n_heads) * (static_cast<uint64_t>(c.nope_width) + c.value_width);
}
uint64_t heads_width(const ModelConfig &c) {
  // bounded: by the limits of model_config.cpp
  return static_cast<uint64_t>(c.n_heads) * c.value_width;
}
uint64_t index_query_rows(const ModelConfig &c) {
  // bounded: by the limits of model_config.cpp
  return static_cast<uint64_t>(c.index_heads) * c.index_width;
}
uint64_t index_width(const ModelConfig &c) {
  return c.index_width;
}
uint64_t index_heads(const ModelConfig &c) {
  return c.index_heads;
}
uint64_t dense_width(const ModelConfig &c) {
  return c.dense_width;
}
uint64_t expert_width(const ModelConfig &c) {
  return c.expert_width;
}
uint64_t shared_width(const ModelConfig &c) {
  return c.shared_width;
}
uint64_t n_experts(const ModelConfig &c) {
  return c.n_experts;
}

using L = LayerSources;
constexpr TensorRule kLayerRules[] = {
    {LayerPart::kEvery, "input_layernorm.weight", &L::input_norm, TensorForm::kVector, width,
     nullptr},
    {LayerPart::kEvery, "self_attn.q_a_proj.weight", &L::query_a, TensorForm::kMatrix, query_latent,
     width},
    {LayerPart::kEvery, "self_attn.q_a_layernorm.weight", &L::query_a_norm, TensorForm::kVector,
     query_latent, nullptr},
    {LayerPart::kEvery, "self_attn.q_b_proj.weight", &L::query_b, TensorForm::kMatrix, query_width,
     query_latent},
    {LayerPart::kEvery, "self_attn.kv_a_proj_with_mqa.weight", &L::kv_a, TensorForm::kMatrix,
     kv_a_rows, width},
    {LayerPart::kEvery, "self_attn.kv_a_layernorm.weight", &L::kv_a_norm, TensorForm::kVector,
     kv_latent, nullptr},
    {LayerPart::kEvery, "self_attn.kv_b_proj.weight", &L::kv_b, TensorForm::kHeadMatrix, kv_b_rows,
     kv_latent},
    {LayerPart::kEvery, "self_attn.o_proj.weight", &L::output, TensorForm::kMatrix, width,
     heads_width},
    {LayerPart::kFullIndexer, "self_attn.indexer.wq_b.weight", &L::index_query, TensorForm::kMatrix,
     index_query_rows, query_latent},
    {LayerPart::kFullIndexer, "self_attn.indexer.wk.weight", &L::index_key, TensorForm::kMatrix,
     index_width, width},
    {LayerPart::kFullIndexer, "self_attn.indexer.k_norm.weight", &L::index_key_norm,
     TensorForm::kVector, index_width, nullptr},
    {LayerPart::kFullIndexer, "self_attn.indexer.k_norm.bias", &L::index_key_norm_bias,
     TensorForm::kVector, index_width, nullptr},
    {LayerPart::kFullIndexer, "self_attn.indexer.weights_proj.weight", &L::index_weights,
     TensorForm::kMatrix, index_heads, width},
    {LayerPart::kEvery, "post_attention_layernorm.weight", &L::attention_norm, TensorForm::kVector,
     width, nullptr},
    {LayerPart::kDense, "mlp.gate_proj.weight", &L::dense_gate, TensorForm::kMatrix, dense_width,
     width},
    {LayerPart::kDense, "mlp.up_proj.weight", &L::dense_up, TensorForm::kMatrix, dense_width,
     width},
    {LayerPart::kDense, "mlp.down_proj.weight", &L::dense_down, TensorForm::kMatrix, width,
     dense_width},
    {LayerPart::kMoe, "mlp.gate.weight", &L::router, TensorForm::kPlainMatrix, n_experts, width},
    {LayerPart::kMoe, "mlp.gate.e_score_correction_bias", &L::selection_bias, TensorForm::kVector,
     n_experts, nullptr},
    {LayerPart::kShared, "mlp.shared_experts.gate_proj.weight", &L::dense_gate, TensorForm::kMatrix,
     shared_width, width},
    {LayerPart::kShared, "mlp.shared_experts.up_proj.weight", &L::dense_up, TensorForm::kMatrix,
     shared_width, width},
    {LayerPart::kShared, "mlp.shared_experts.down_proj.weight", &L::dense_down, TensorForm::kMatrix,
     width, shared_width},
};
constexpr ExpertRule kExpertRules[] = {
    {"gate_proj.weight", &ExpertSource::gate, expert_width, width},
    {"up_proj.weight", &ExpertSource::up, expert_width, width},
    {"down_proj.weight", &ExpertSource::down, width, expert_width},
};

// Takes "<digits>" and the dot behind it, or the end, from the front of `text`.
std::optional<uint32_t> take_id(std::string_view *text, bool may_end) noexcept {
  uint32_t id = 0;
  const char *end = text->data() + text->size();
  const auto result = std::from_chars(text->data(), end, id);
  const size_t n_digits = static_cast<size_t>(result.ptr - text->data());
  if (result.ec != std::errc() || (n_digits > 1 && text->front() == '0')) return std::nullopt;
  if (result.ptr == end ? !may_end : *result.ptr != '.') return std::nullopt;
  text->remove_prefix(n_digits + (result.ptr == end ? 0 : 1));
  return id;
}

}  // namespace

std::span<const TensorRule> layer_rules() noexcept {
  return kLayerRules;
}

std::span<const ExpertRule> expert_rules() noexcept {
  return kExpertRules;
}

bool applies(LayerPart part, const ModelConfig &config, uint32_t layer) noexcept {
  const bool is_moe = config.feed_forward_kinds[layer] == FeedForwardKind::kMoe;
  switch (part) {
    case LayerPart::kEvery:
      return true;
    case LayerPart::kFullIndexer:
      return config.index_top_k != 0 && config.indexer_kinds[layer] == IndexerKind::kFull;
    case LayerPart::kDense:
      return !is_moe;
    case LayerPart::kMoe:
      return is_moe;
    case LayerPart::kShared:
      return is_moe && config.shared_width != 0;
  }
  return false;
}

uint32_t count_experts(const ModelConfig &config, uint32_t layer) noexcept {
  return config.feed_forward_kinds[layer] == FeedForwardKind::kMoe ? config.n_experts : 0;
}

std::string layer_prefix(uint32_t layer) {
  return std::string(kLayerPrefix) + std::to_string(layer) + ".";
}

std::string expert_name(uint32_t layer, uint32_t expert) {
  return layer_prefix(layer) + std::string(kExpertInfix) + std::to_string(expert);
}

std::string expert_matrix_name(uint32_t layer, uint32_t expert, const ExpertRule &rule) {
  return expert_name(layer, expert) + "." + rule.suffix;
}

std::optional<TensorPlace> parse_tensor_name(std::string_view name) noexcept {
  if (name.substr(0, kLayerPrefix.size()) != kLayerPrefix) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const std::optional<uint32_t> layer = take_id(&name, false);
  if (!layer) return std::nullopt;
  TensorPlace place{*layer, std::nullopt};
  if (name.substr(0, kExpertInfix.size()) == kExpertInfix) {
    name.remove_prefix(kExpertInfix.size());
    place.expert = take_id(&name, true);
  }
  return place;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Extents are functions of the config, whose numbers config_parts.cpp bounds, so that no product
// here can overflow.

#include "lib/snapshot/tensor_rules.h"

#include <charconv>

namespace colibri {
namespace {

constexpr std::string_view kLayerPrefix = "model.layers.";

uint64_t width(const ModelConfig &c) {
  return c.width;
}
uint64_t query_latent(const ModelConfig &c) {
  return c.query_latent;
}
uint64_t kv_latent(const ModelConfig &c) {
  return c.kv_latent;
}
// bounded, as every product here: by the limits of config_parts.cpp
uint64_t query_rows(const ModelConfig &c) {
  // bounded: by the limits of config_parts.cpp
  return static_cast<uint64_t>(c.n_heads) * c.query_head_width();
}
uint64_t kv_a_rows(const ModelConfig &c) {
  return static_cast<uint64_t>(c.kv_latent) + c.rotary.width;
}
uint64_t kv_b_rows(const ModelConfig &c) {
  // bounded: by the limits of config_parts.cpp
  return static_cast<uint64_t>(c.n_heads) * (static_cast<uint64_t>(c.nope_width) + c.value_width);
}
uint64_t key_rows(const ModelConfig &c) {
  // bounded: by the limits of config_parts.cpp
  return static_cast<uint64_t>(c.n_kv_heads) * c.head_width;
}
uint64_t output_columns(const ModelConfig &c) {
  // bounded: by the limits of config_parts.cpp
  return static_cast<uint64_t>(c.n_heads) * c.value_head_width();
}
uint64_t query_norm_size(const ModelConfig &c) {
  return c.query_key_norm == QueryKeyNorm::kWhole ? query_rows(c) : c.head_width;
}
uint64_t key_norm_size(const ModelConfig &c) {
  return c.query_key_norm == QueryKeyNorm::kWhole ? key_rows(c) : c.head_width;
}
uint64_t n_heads(const ModelConfig &c) {
  return c.n_heads;
}
uint64_t index_query_rows(const ModelConfig &c) {
  // bounded: by the limits of config_parts.cpp
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
uint64_t one(const ModelConfig &) {
  return 1;
}

bool always(const ModelConfig &, uint32_t) {
  return true;
}
bool is_latent(const ModelConfig &c, uint32_t) {
  return c.attention == AttentionKind::kLatent;
}
bool has_query_latent(const ModelConfig &c, uint32_t layer) {
  return is_latent(c, layer) && c.query_latent != 0;
}
bool has_one_query(const ModelConfig &c, uint32_t layer) {
  return !has_query_latent(c, layer);
}
bool is_grouped(const ModelConfig &c, uint32_t) {
  return c.attention == AttentionKind::kGrouped;
}
bool has_query_bias(const ModelConfig &c, uint32_t layer) {
  return is_grouped(c, layer) && c.has_query_bias;
}
bool has_output_bias(const ModelConfig &c, uint32_t layer) {
  return is_grouped(c, layer) && c.has_output_bias;
}
bool has_query_key_norm(const ModelConfig &c, uint32_t layer) {
  return is_grouped(c, layer) && c.query_key_norm != QueryKeyNorm::kNone;
}
bool has_sinks(const ModelConfig &c, uint32_t layer) {
  return is_grouped(c, layer) && c.has_sinks;
}
bool has_indexer(const ModelConfig &c, uint32_t layer) {
  return c.index_top_k != 0 && c.indexer_kinds[layer] == IndexerKind::kFull;
}
bool is_moe(const ModelConfig &c, uint32_t layer) {
  return c.feed_forward_kinds[layer] == FeedForwardKind::kMoe;
}
bool is_dense(const ModelConfig &c, uint32_t layer) {
  return !is_moe(c, layer);
}
bool has_shared(const ModelConfig &c, uint32_t layer) {
  return is_moe(c, layer) && c.shared_width != 0;
}
bool has_shared_gate(const ModelConfig &c, uint32_t layer) {
  return has_shared(c, layer) && c.has_shared_gate;
}
bool has_router_bias(const ModelConfig &c, uint32_t layer) {
  return is_moe(c, layer) && c.has_router_bias;
}
bool has_selection_bias(const ModelConfig &c, uint32_t layer) {
  return is_moe(c, layer) && c.router == RouterKind::kSigmoid;
}

using L = LayerSources;
using N = NameTable;
constexpr TensorForm kMatrix = TensorForm::kMatrix;
constexpr TensorForm kPlain = TensorForm::kPlainMatrix;
constexpr TensorForm kVector = TensorForm::kVector;

constexpr TensorRule named(AppliesFn applies, const char *suffix, WeightSource L::*field,
                           TensorForm form, Extent rows, Extent columns = nullptr) {
  return {applies, suffix, nullptr, field, form, rows, columns};
}
constexpr TensorRule varying(AppliesFn applies, const char *N::*name, WeightSource L::*field,
                             TensorForm form, Extent rows, Extent columns = nullptr) {
  return {applies, nullptr, name, field, form, rows, columns};
}

constexpr TensorRule kLayerRules[] = {
    named(always, "input_layernorm.weight", &L::input_norm, kVector, width),
    named(has_query_latent, "self_attn.q_a_proj.weight", &L::query_a, kMatrix, query_latent, width),
    named(has_query_latent, "self_attn.q_a_layernorm.weight", &L::query_a_norm, kVector,
          query_latent),
    named(has_query_latent, "self_attn.q_b_proj.weight", &L::query_b, kMatrix, query_rows,
          query_latent),
    named(has_one_query, "self_attn.q_proj.weight", &L::query, kMatrix, query_rows, width),
    named(has_query_bias, "self_attn.q_proj.bias", &L::query_bias, kVector, query_rows),
    named(is_latent, "self_attn.kv_a_proj_with_mqa.weight", &L::kv_a, kMatrix, kv_a_rows, width),
    named(is_latent, "self_attn.kv_a_layernorm.weight", &L::kv_a_norm, kVector, kv_latent),
    named(is_latent, "self_attn.kv_b_proj.weight", &L::kv_b, TensorForm::kHeadMatrix, kv_b_rows,
          kv_latent),
    named(is_grouped, "self_attn.k_proj.weight", &L::key, kMatrix, key_rows, width),
    named(has_query_bias, "self_attn.k_proj.bias", &L::key_bias, kVector, key_rows),
    named(is_grouped, "self_attn.v_proj.weight", &L::value, kMatrix, key_rows, width),
    named(has_query_bias, "self_attn.v_proj.bias", &L::value_bias, kVector, key_rows),
    named(has_query_key_norm, "self_attn.q_norm.weight", &L::query_norm, kVector, query_norm_size),
    named(has_query_key_norm, "self_attn.k_norm.weight", &L::key_norm, kVector, key_norm_size),
    named(has_sinks, "self_attn.sinks", &L::sinks, kVector, n_heads),
    named(always, "self_attn.o_proj.weight", &L::output, kMatrix, width, output_columns),
    named(has_output_bias, "self_attn.o_proj.bias", &L::output_bias, kVector, width),
    named(has_indexer, "self_attn.indexer.wq_b.weight", &L::index_query, kMatrix, index_query_rows,
          query_latent),
    named(has_indexer, "self_attn.indexer.wk.weight", &L::index_key, kMatrix, index_width, width),
    named(has_indexer, "self_attn.indexer.k_norm.weight", &L::index_key_norm, kVector, index_width),
    named(has_indexer, "self_attn.indexer.k_norm.bias", &L::index_key_norm_bias, kVector,
          index_width),
    named(has_indexer, "self_attn.indexer.weights_proj.weight", &L::index_weights, kMatrix,
          index_heads, width),
    named(always, "post_attention_layernorm.weight", &L::attention_norm, kVector, width),
    named(is_dense, "mlp.gate_proj.weight", &L::dense_gate, kMatrix, dense_width, width),
    named(is_dense, "mlp.up_proj.weight", &L::dense_up, kMatrix, dense_width, width),
    named(is_dense, "mlp.down_proj.weight", &L::dense_down, kMatrix, width, dense_width),
    varying(is_moe, &N::router, &L::router, kPlain, n_experts, width),
    varying(has_router_bias, &N::router_bias, &L::router_bias, kVector, n_experts),
    varying(has_selection_bias, &N::selection_bias, &L::selection_bias, kVector, n_experts),
    varying(has_shared, &N::shared_gate_matrix, &L::dense_gate, kMatrix, shared_width, width),
    varying(has_shared, &N::shared_up_matrix, &L::dense_up, kMatrix, shared_width, width),
    varying(has_shared, &N::shared_down_matrix, &L::dense_down, kMatrix, width, shared_width),
    varying(has_shared_gate, &N::shared_gate, &L::shared_gate, kPlain, one, width),
};
constexpr ExpertRule kExpertRules[] = {
    {&N::expert_gate, &ExpertSource::gate, expert_width, width},
    {&N::expert_up, &ExpertSource::up, expert_width, width},
    {&N::expert_down, &ExpertSource::down, width, expert_width},
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

// Whether what follows the prefix of a layer is a tensor of all experts.
bool is_fused_name(const NameTable &names, std::string_view name) noexcept {
  if (name == names.fused_gate_up_bias || name == names.fused_down_bias) return true;
  for (const std::string_view matrix : {names.fused_gate_up, names.fused_down}) {
    if (!name.starts_with(matrix)) continue;
    name.remove_prefix(matrix.size());
    return name.empty() || name == kMxFp4Blocks || name == kMxFp4Scales;
  }
  return false;
}

}  // namespace

std::span<const TensorRule> layer_rules() noexcept {
  return kLayerRules;
}

std::span<const ExpertRule> expert_rules() noexcept {
  return kExpertRules;
}

std::string tensor_name(const NameTable &names, uint32_t layer, const TensorRule &rule) {
  return layer_prefix(layer) + (rule.suffix != nullptr ? rule.suffix : names.*rule.varying);
}

uint32_t count_experts(const ModelConfig &config, uint32_t layer) noexcept {
  return config.feed_forward_kinds[layer] == FeedForwardKind::kMoe ? config.n_experts : 0;
}

std::string layer_prefix(uint32_t layer) {
  return std::string(kLayerPrefix) + std::to_string(layer) + ".";
}

std::string expert_name(const NameTable &names, uint32_t layer, uint32_t expert) {
  return layer_prefix(layer) + names.experts + std::to_string(expert);
}

std::string expert_matrix_name(const NameTable &names, uint32_t layer, uint32_t expert,
                               const ExpertRule &rule) {
  return expert_name(names, layer, expert) + "." + names.*rule.suffix;
}

const NameTable &choose_names(const TensorIndex &index, const ModelConfig &config) {
  const std::span<const NameTable> tables = find_family(config.model_type)->names;
  uint32_t layer = 0;
  while (layer < config.n_layers && !is_moe(config, layer)) ++layer;
  if (layer == config.n_layers) return tables.front();
  const NameTable *best = &tables.front();
  size_t most = 0;
  for (const NameTable &names : tables) {
    size_t n_found = 0;
    for (const TensorRule &rule : layer_rules()) {
      if (rule.suffix != nullptr || !rule.applies(config, layer)) continue;
      if (index.find(tensor_name(names, layer, rule)) != nullptr) ++n_found;
    }
    for (const ExpertRule &rule : expert_rules()) {
      if (index.find(expert_matrix_name(names, layer, 0, rule)) != nullptr) ++n_found;
    }
    if (n_found > most) {
      most = n_found;
      best = &names;
    }
  }
  return *best;
}

std::optional<TensorPlace> parse_tensor_name(const NameTable &names,
                                             std::string_view name) noexcept {
  if (!name.starts_with(kLayerPrefix)) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const std::optional<uint32_t> layer = take_id(&name, false);
  if (!layer) return std::nullopt;
  TensorPlace place{*layer, std::nullopt, is_fused_name(names, name)};
  if (name.starts_with(names.experts)) {
    name.remove_prefix(std::string_view(names.experts).size());
    place.expert = take_id(&name, true);
  }
  return place;
}

}  // namespace colibri

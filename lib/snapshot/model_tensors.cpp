// SPDX-License-Identifier: Apache-2.0
//
// The table of tensors of the glm_moe_dsa layer, and what is done with it: the census of absent
// names, the resolution of shapes and formats, the list of tensors nobody needs. A tensor name is
// spelled nowhere else.

#include "lib/snapshot/model_tensors.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

// In which layers a row of the table applies.
enum class Part : uint8_t { kEvery, kFullIndexer, kDense, kMoe, kShared };
enum class Form : uint8_t { kMatrix, kPlainMatrix, kVector };
using Extent = uint64_t (*)(const ModelConfig &config);

struct TensorRule {
  Part part;
  const char *suffix;  // behind "model.layers.<i>."
  WeightSource LayerSources::*field;
  Form form;
  Extent rows;     // the size of a vector
  Extent columns;  // unused for vectors
};

struct ExpertRule {
  const char *suffix;  // behind "model.layers.<i>.mlp.experts.<e>."
  WeightSource ExpertSource::*field;
  Extent rows;
  Extent columns;
};

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
  return static_cast<uint64_t>(c.n_heads) * (static_cast<uint64_t>(c.nope_width) + c.rope_width);
}
uint64_t kv_a_rows(const ModelConfig &c) {
  return static_cast<uint64_t>(c.kv_latent) + c.rope_width;
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
  // bounded: by the limits of model_config.cpp
  return static_cast<uint64_t>(c.n_shared_experts) * c.expert_width;
}
uint64_t n_experts(const ModelConfig &c) {
  return c.n_experts;
}

using L = LayerSources;
constexpr TensorRule kLayerRules[] = {
    {Part::kEvery, "input_layernorm.weight", &L::input_norm, Form::kVector, width, nullptr},
    {Part::kEvery, "self_attn.q_a_proj.weight", &L::query_a, Form::kMatrix, query_latent, width},
    {Part::kEvery, "self_attn.q_a_layernorm.weight", &L::query_a_norm, Form::kVector, query_latent,
     nullptr},
    {Part::kEvery, "self_attn.q_b_proj.weight", &L::query_b, Form::kMatrix, query_width,
     query_latent},
    {Part::kEvery, "self_attn.kv_a_proj_with_mqa.weight", &L::kv_a, Form::kMatrix, kv_a_rows,
     width},
    {Part::kEvery, "self_attn.kv_a_layernorm.weight", &L::kv_a_norm, Form::kVector, kv_latent,
     nullptr},
    {Part::kEvery, "self_attn.kv_b_proj.weight", &L::kv_b, Form::kMatrix, kv_b_rows, kv_latent},
    {Part::kEvery, "self_attn.o_proj.weight", &L::output, Form::kMatrix, width, heads_width},
    {Part::kFullIndexer, "self_attn.indexer.wq_b.weight", &L::index_query, Form::kMatrix,
     index_query_rows, query_latent},
    {Part::kFullIndexer, "self_attn.indexer.wk.weight", &L::index_key, Form::kMatrix, index_width,
     width},
    {Part::kFullIndexer, "self_attn.indexer.k_norm.weight", &L::index_key_norm, Form::kVector,
     index_width, nullptr},
    {Part::kFullIndexer, "self_attn.indexer.k_norm.bias", &L::index_key_norm_bias, Form::kVector,
     index_width, nullptr},
    {Part::kFullIndexer, "self_attn.indexer.weights_proj.weight", &L::index_weights, Form::kMatrix,
     index_heads, width},
    {Part::kEvery, "post_attention_layernorm.weight", &L::attention_norm, Form::kVector, width,
     nullptr},
    {Part::kDense, "mlp.gate_proj.weight", &L::dense_gate, Form::kMatrix, dense_width, width},
    {Part::kDense, "mlp.up_proj.weight", &L::dense_up, Form::kMatrix, dense_width, width},
    {Part::kDense, "mlp.down_proj.weight", &L::dense_down, Form::kMatrix, width, dense_width},
    {Part::kMoe, "mlp.gate.weight", &L::router, Form::kPlainMatrix, n_experts, width},
    {Part::kMoe, "mlp.gate.e_score_correction_bias", &L::router_bias, Form::kVector, n_experts,
     nullptr},
    {Part::kShared, "mlp.shared_experts.gate_proj.weight", &L::dense_gate, Form::kMatrix,
     shared_width, width},
    {Part::kShared, "mlp.shared_experts.up_proj.weight", &L::dense_up, Form::kMatrix, shared_width,
     width},
    {Part::kShared, "mlp.shared_experts.down_proj.weight", &L::dense_down, Form::kMatrix, width,
     shared_width},
};
constexpr ExpertRule kExpertRules[] = {
    {"gate_proj.weight", &ExpertSource::gate, expert_width, width},
    {"up_proj.weight", &ExpertSource::up, expert_width, width},
    {"down_proj.weight", &ExpertSource::down, width, expert_width},
};
constexpr const char *kEmbeddingName = "model.embed_tokens.weight";
constexpr const char *kFinalNormName = "model.norm.weight";
constexpr const char *kHeadName = "lm_head.weight";
constexpr const char *kFusedExpertsSuffix = "mlp.experts.gate_up_proj";
constexpr std::string_view kLayerPrefix = "model.layers.";
constexpr std::string_view kExpertInfix = "mlp.experts.";

bool applies(Part part, const ModelConfig &config, uint32_t layer) {
  const bool is_moe = config.feed_forward_kinds[layer] == FeedForwardKind::kMoe;
  switch (part) {
    case Part::kEvery:
      return true;
    case Part::kFullIndexer:
      return config.indexer_kinds[layer] == IndexerKind::kFull;
    case Part::kDense:
      return !is_moe;
    case Part::kMoe:
      return is_moe;
    case Part::kShared:
      return is_moe && config.n_shared_experts != 0;
  }
  return false;
}

uint32_t count_experts(const ModelConfig &config, uint32_t layer) {
  return config.feed_forward_kinds[layer] == FeedForwardKind::kMoe ? config.n_experts : 0;
}

std::string layer_prefix(uint32_t layer) {
  return std::string(kLayerPrefix) + std::to_string(layer) + ".";
}

std::string expert_prefix(uint32_t layer, uint32_t expert) {
  return layer_prefix(layer) + std::string(kExpertInfix) + std::to_string(expert) + ".";
}

// Takes "<digits>." from the front of `text`. Numbers with leading zeros are no ids.
std::optional<uint32_t> take_id(std::string_view *text) {
  uint32_t id = 0;
  const char *end = text->data() + text->size();
  const auto result = std::from_chars(text->data(), end, id);
  const size_t n_digits = static_cast<size_t>(result.ptr - text->data());
  if (result.ec != std::errc() || result.ptr == end || *result.ptr != '.') return std::nullopt;
  if (n_digits > 1 && text->front() == '0') return std::nullopt;
  text->remove_prefix(n_digits + 1);
  return id;
}

// A tensor name taken apart.
struct TensorPlace {
  uint32_t layer = 0;
  std::optional<uint32_t> expert;
};

std::optional<TensorPlace> parse_tensor_name(std::string_view name) {
  if (name.substr(0, kLayerPrefix.size()) != kLayerPrefix) return std::nullopt;
  name.remove_prefix(kLayerPrefix.size());
  const std::optional<uint32_t> layer = take_id(&name);
  if (!layer) return std::nullopt;
  TensorPlace place{*layer, std::nullopt};
  if (name.substr(0, kExpertInfix.size()) == kExpertInfix) {
    name.remove_prefix(kExpertInfix.size());
    place.expert = take_id(&name);
  }
  return place;
}

// Counts what is absent, by names alone. A layer without a single expert tensor is counted without
// a look-up per expert, so that a config that lies about its size costs nothing.
class Census {
 public:
  Census(const TensorIndex &index, const ModelConfig &config)
      : index_(index), config_(config), has_experts_(config.n_layers, false) {
    for (const std::string_view name : index.names()) {
      const auto place = parse_tensor_name(name);
      if (place && place->expert && place->layer < config.n_layers)
        has_experts_[place->layer] = true;
    }
  }

  void require_complete(const std::string &missing_shards) {
    count(kEmbeddingName);
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) count_layer(layer);
    count(kFinalNormName);
    if (!config_.ties_embedding) count(kHeadName);
    if (n_absent_ == 0 && missing_shards.empty()) return;
    reject_fused_experts();
    std::string text = "incomplete model: ";
    if (!missing_shards.empty()) text += "missing shard " + missing_shards + "; ";
    text += std::to_string(n_absent_) + " of " + std::to_string(n_needed_) + " tensors absent";
    if (!absent_layers_.empty()) text += " (layers " + describe_ranges(absent_layers_) + ")";
    if (!first_absent_.empty()) text += ", first " + printable(first_absent_);
    text += "; " + describe_found();
    throw_error(StatusCode::kIncomplete, "%s", text.c_str());
  }

 private:
  void count(const std::string &name) {
    ++n_needed_;
    const std::string absent = find_absent_part(index_, name);
    if (!absent.empty()) note_absent(absent, 1);
  }

  void note_absent(const std::string &name, uint64_t n_tensors) {
    if (n_absent_ == 0) first_absent_ = name;
    n_absent_ += n_tensors;
  }

  void count_layer(uint32_t layer) {
    const uint64_t before = n_absent_;
    const std::string prefix = layer_prefix(layer);
    for (const TensorRule &rule : kLayerRules) {
      if (applies(rule.part, config_, layer)) count(prefix + rule.suffix);
    }
    count_layer_experts(layer);
    if (n_absent_ != before) absent_layers_.push_back(layer);
  }

  void count_layer_experts(uint32_t layer) {
    const uint32_t n_experts = count_experts(config_, layer);
    if (n_experts != 0 && !has_experts_[layer]) {
      // bounded: by the limit of experts in model_config.cpp
      const uint64_t n_tensors = n_experts * std::size(kExpertRules);
      n_needed_ += n_tensors;
      note_absent(expert_prefix(layer, 0) + kExpertRules[0].suffix, n_tensors);
      return;
    }
    for (uint32_t expert = 0; expert < n_experts; ++expert) {
      const std::string prefix = expert_prefix(layer, expert);
      for (const ExpertRule &rule : kExpertRules) count(prefix + rule.suffix);
    }
  }

  void reject_fused_experts() const {
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) {
      const std::string name = layer_prefix(layer) + kFusedExpertsSuffix;
      if (index_.find(name) == nullptr) continue;
      throw_error(StatusCode::kUnsupported,
                  "tensor %s holds all experts of a layer in one; only one tensor per expert and "
                  "matrix is read",
                  name.c_str());
    }
  }

  std::string describe_found() const {
    std::vector<std::string> names;
    for (const ShardFile &file : index_.files()) names.push_back(file.name);
    return describe_shards(names);
  }

  const TensorIndex &index_;
  const ModelConfig &config_;
  std::vector<bool> has_experts_;
  std::vector<uint64_t> absent_layers_;
  std::string first_absent_;
  uint64_t n_needed_ = 0;
  uint64_t n_absent_ = 0;
};

LayerSources resolve_layer(const TensorIndex &index, const ModelConfig &config, uint32_t layer) {
  LayerSources sources;
  const std::string prefix = layer_prefix(layer);
  for (const TensorRule &rule : kLayerRules) {
    if (!applies(rule.part, config, layer)) continue;
    const std::string name = prefix + rule.suffix;
    WeightSource &source = sources.*rule.field;
    if (rule.form == Form::kVector) source = find_vector(index, name, rule.rows(config));
    if (rule.form == Form::kMatrix) {
      source = find_matrix(index, name, rule.rows(config), rule.columns(config));
    }
    if (rule.form == Form::kPlainMatrix) {
      source = find_plain_matrix(index, name, rule.rows(config), rule.columns(config));
    }
  }
  sources.experts.resize(count_experts(config, layer));
  for (uint32_t expert = 0; expert < sources.experts.size(); ++expert) {
    const std::string start = expert_prefix(layer, expert);
    for (const ExpertRule &rule : kExpertRules) {
      sources.experts[expert].*rule.field =
          find_matrix(index, start + rule.suffix, rule.rows(config), rule.columns(config));
    }
  }
  return sources;
}

// A routed expert that the config does not know is a contradiction, not a leftover: the router
// would be too small.
void reject_unusable_expert(std::string_view name, const TensorPlace &place,
                            const ModelConfig &config) {
  if (!place.expert || place.layer >= config.n_layers) return;
  const uint32_t n_experts = count_experts(config, place.layer);
  if (*place.expert < n_experts) return;
  if (n_experts == 0) {
    throw_error(StatusCode::kFormat,
                "tensor %s is a routed expert, but layer %u is dense by the config",
                printable(name).c_str(), place.layer);
  }
  throw_error(StatusCode::kFormat, "tensor %s: expert id %u is outside 0..%u of the config",
              printable(name).c_str(), *place.expert, n_experts - 1);
}

bool is_companion_of_used(std::string_view name, const std::unordered_set<std::string_view> &used) {
  for (const std::string_view suffix : {".qs", "_scale_inv"}) {
    if (name.size() <= suffix.size() || name.substr(name.size() - suffix.size()) != suffix)
      continue;
    if (used.count(name.substr(0, name.size() - suffix.size())) != 0) return true;
  }
  return false;
}

void list_ignored(const TensorIndex &index, const ModelConfig &config, ModelSources *sources) {
  std::unordered_set<std::string_view> used;
  visit_sources(*sources, [&](const WeightSource &source) { used.insert(source.name); });
  for (const std::string_view name : index.names()) {
    if (used.count(name) != 0 || is_companion_of_used(name, used)) continue;
    if (const auto place = parse_tensor_name(name)) reject_unusable_expert(name, *place, config);
    sources->ignored_tensors.emplace_back(name);
  }
}

}  // namespace

ModelSources resolve_model_tensors(const TensorIndex &index, const ModelConfig &config,
                                   const std::string &missing_shards) {
  Census(index, config).require_complete(missing_shards);
  ModelSources sources;
  const uint64_t n_rows = config.vocabulary_size;
  sources.embedding = find_matrix(index, kEmbeddingName, n_rows, config.width);
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    sources.layers.push_back(resolve_layer(index, config, layer));
  }
  sources.final_norm = find_vector(index, kFinalNormName, config.width);
  sources.head = config.ties_embedding ? sources.embedding
                                       : find_matrix(index, kHeadName, n_rows, config.width);
  list_ignored(index, config, &sources);
  return sources;
}

void visit_sources(const ModelSources &sources,
                   const std::function<void(const WeightSource &)> &visit) {
  visit(sources.embedding);
  for (const LayerSources &layer : sources.layers) {
    for (const TensorRule &rule : kLayerRules) {
      if (rule.part == Part::kShared) continue;  // these fill the fields of the dense rows
      const WeightSource &source = layer.*rule.field;
      if (source.is_present()) visit(source);
    }
    for (const ExpertSource &expert : layer.experts) {
      for (const ExpertRule &rule : kExpertRules) visit(expert.*rule.field);
    }
  }
  visit(sources.final_norm);
  if (sources.head.name != sources.embedding.name) visit(sources.head);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// What is done with the table of tensors: shapes and formats are resolved, and what nobody needs is
// listed.

#include "lib/snapshot/model_tensors.h"

#include <string_view>
#include <unordered_set>

#include "lib/snapshot/packed_source.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/tensor_census.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

void resolve_tensor(const TensorIndex &index, const ModelConfig &config, const std::string &name,
                    const TensorRule &rule, LayerSources *sources) {
  WeightSource &source = sources->*rule.field;
  switch (rule.form) {
    case TensorForm::kVector:
      source = find_vector(index, name, rule.rows(config));
      return;
    case TensorForm::kPlainMatrix:
      source = find_plain_matrix(index, name, rule.rows(config), rule.columns(config));
      return;
    case TensorForm::kHeadMatrix:
      if (index.packed_layout(name) != nullptr) {
        sources->kv_heads = find_packed_heads(index, name, config);
        return;
      }
      [[fallthrough]];
    case TensorForm::kMatrix:
      source = find_matrix(index, name, rule.rows(config), rule.columns(config));
      return;
  }
}

ExpertSource resolve_expert(const TensorIndex &index, const ModelConfig &config, uint32_t layer,
                            uint32_t expert) {
  const std::string name = expert_name(layer, expert);
  const bool is_packed = index.packed_layout(name) != nullptr;
  ExpertSource source;
  for (const ExpertRule &rule : expert_rules()) {
    const std::string matrix = expert_matrix_name(layer, expert, rule);
    if (!is_packed) {
      source.*rule.field = find_matrix(index, matrix, rule.rows(config), rule.columns(config));
    } else if (index.find(matrix) != nullptr) {
      throw_error(StatusCode::kFormat,
                  "expert %u of layer %u is there twice: packed as %s, and as separate matrices "
                  "(%s)",
                  expert, layer, name.c_str(), matrix.c_str());
    }
  }
  if (!is_packed) return source;
  return find_packed_expert(index, name, config.expert_width, config.width);
}

LayerSources resolve_layer(const TensorIndex &index, const ModelConfig &config, uint32_t layer) {
  LayerSources sources;
  const std::string prefix = layer_prefix(layer);
  for (const TensorRule &rule : layer_rules()) {
    if (!applies(rule.part, config, layer)) continue;
    resolve_tensor(index, config, prefix + rule.suffix, rule, &sources);
  }
  const uint32_t n_experts = count_experts(config, layer);
  sources.experts.reserve(n_experts);
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    sources.experts.push_back(resolve_expert(index, config, layer, expert));
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

using UsedTensors = std::unordered_set<const TensorInfo *>;

bool is_companion_of_used(const TensorIndex &index, std::string_view name,
                          const UsedTensors &used) {
  for (const std::string_view suffix : kScaleSuffixes) {
    if (name.size() <= suffix.size() || name.substr(name.size() - suffix.size()) != suffix)
      continue;
    if (used.count(index.find(name.substr(0, name.size() - suffix.size()))) != 0) return true;
  }
  return false;
}

void list_ignored(const TensorIndex &index, const ModelConfig &config, ModelSources *sources) {
  UsedTensors used;
  visit_sources(*sources,
                [&](const WeightSource &source) { used.insert(index.find(source.name)); });
  for (const std::string_view name : index.names()) {
    if (used.count(index.find(name)) != 0 || is_companion_of_used(index, name, used)) continue;
    if (const auto place = parse_tensor_name(name)) reject_unusable_expert(name, *place, config);
    sources->ignored_tensors.emplace_back(name);
  }
}

void visit_heads(const KvHeadsSource &heads,
                 const std::function<void(const WeightSource &)> &visit) {
  for (uint32_t head = 0; head < heads.n_heads; ++head) {
    for (const size_t part : {0, 1}) visit(head_part(heads, head, part));
  }
}

}  // namespace

ModelSources resolve_model_tensors(const TensorIndex &index, const ModelConfig &config,
                                   const std::string &missing_shards) {
  require_complete(index, config, missing_shards);
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
    for (const TensorRule &rule : layer_rules()) {
      if (rule.part == LayerPart::kShared) continue;  // these fill the fields of the dense rows
      const WeightSource &source = layer.*rule.field;
      if (source.is_present()) visit(source);
      if (rule.form == TensorForm::kHeadMatrix) visit_heads(layer.kv_heads, visit);
    }
    for (const ExpertSource &expert : layer.experts) {
      for (const ExpertRule &rule : expert_rules()) visit(expert.*rule.field);
    }
  }
  visit(sources.final_norm);
  if (sources.head.name != sources.embedding.name) visit(sources.head);
}

}  // namespace colibri

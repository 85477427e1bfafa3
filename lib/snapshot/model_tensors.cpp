// SPDX-License-Identifier: Apache-2.0
//
// What is done with the table of tensors: shapes and formats are resolved, and what nobody needs is
// listed.

#include "lib/snapshot/model_tensors.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "lib/snapshot/expert_sources.h"
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

LayerSources resolve_layer(const TensorIndex &index, const ModelConfig &config,
                           const NameTable &names, uint32_t layer, ExpertForm form) {
  LayerSources sources;
  for (const TensorRule &rule : layer_rules()) {
    if (!rule.applies(config, layer)) continue;
    resolve_tensor(index, config, tensor_name(names, layer, rule), rule, &sources);
  }
  sources.experts = resolve_experts(index, config, names, layer, form);
  return sources;
}

// A routed expert that the config does not know is a contradiction, not a leftover: the router
// would be too small.
void reject_unusable_expert(std::string_view name, const TensorPlace &place,
                            const ModelConfig &config) {
  if ((!place.expert && !place.is_fused) || place.layer >= config.n_layers) return;
  const uint32_t n_experts = count_experts(config, place.layer);
  if (place.expert && *place.expert < n_experts) return;
  if (n_experts == 0) {
    throw_error(StatusCode::kFormat,
                "tensor %s is a routed expert, but layer %u is dense by the config",
                printable(name).c_str(), place.layer);
  }
  if (place.is_fused) {
    throw_error(StatusCode::kFormat,
                "tensor %s belongs to the experts of layer %u, but models of %s have no use for it",
                printable(name).c_str(), place.layer, config.model_type.c_str());
  }
  throw_error(StatusCode::kFormat, "tensor %s: expert id %u is outside 0..%u of the config",
              printable(name).c_str(), *place.expert, n_experts - 1);
}

using UsedTensors = std::unordered_set<const TensorInfo *>;

void list_ignored(const TensorIndex &index, const ModelConfig &config, ModelSources *sources) {
  UsedTensors used;
  visit_sources(*sources, [&](const WeightSource &source) {
    used.insert(index.find(values_name(source)));
    const std::string scales = scales_name(index, source);
    if (!scales.empty()) used.insert(index.find(scales));
  });
  for (const std::string_view name : index.names()) {
    if (used.count(index.find(name)) != 0) continue;
    if (const auto place = parse_tensor_name(*sources->names, name)) {
      reject_unusable_expert(name, *place, config);
    }
    sources->ignored_tensors.emplace_back(name);
  }
}

void visit_heads(const KvHeadsSource &heads,
                 const std::function<void(const WeightSource &)> &visit) {
  for (uint32_t head = 0; head < heads.n_heads; ++head) {
    for (const size_t part : {0, 1}) visit(head_part(heads, head, part));
  }
}

void visit_expert(const ExpertSource &expert,
                  const std::function<void(const WeightSource &)> &visit) {
  for (const WeightSource *source : {&expert.gate, &expert.up, &expert.down, &expert.gate_bias,
                                     &expert.up_bias, &expert.down_bias}) {
    if (source->is_present()) visit(*source);
  }
}

}  // namespace

ModelSources resolve_model_tensors(const TensorIndex &index, const ModelConfig &config,
                                   const std::string &missing_shards) {
  require_complete(index, config, missing_shards);
  ModelSources sources;
  sources.names = &choose_names(index, config);
  const std::vector<ExpertForm> forms = find_expert_forms(index, config, *sources.names);
  const uint64_t n_rows = config.vocabulary_size;
  sources.embedding = find_matrix(index, kEmbeddingName, n_rows, config.width);
  for (uint32_t layer = 0; layer < config.n_layers; ++layer) {
    sources.layers.push_back(resolve_layer(index, config, *sources.names, layer, forms[layer]));
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
    // A field that several rules can fill is visited once, at the first of them.
    std::vector<WeightSource LayerSources::*> seen;
    for (const TensorRule &rule : layer_rules()) {
      if (std::find(seen.begin(), seen.end(), rule.field) != seen.end()) continue;
      seen.push_back(rule.field);
      const WeightSource &source = layer.*rule.field;
      if (source.is_present()) visit(source);
      if (rule.form == TensorForm::kHeadMatrix) visit_heads(layer.kv_heads, visit);
    }
    for (const ExpertSource &expert : layer.experts) visit_expert(expert, visit);
  }
  visit(sources.final_norm);
  if (sources.head.name != sources.embedding.name) visit(sources.head);
}

}  // namespace colibri

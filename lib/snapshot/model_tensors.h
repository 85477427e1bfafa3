// SPDX-License-Identifier: Apache-2.0
//
// The tensors that a model needs, found and checked: one list for loading, planning and reports.

#pragma once

#include <functional>
#include <string>

#include "lib/snapshot/snapshot.h"

namespace colibri {

// Finds every tensor that `config` needs. First a census over names alone (tensor_census.h), then
// shapes and formats, with the errors of weight_source.h and packed_source.h. Routed experts
// have one of the forms of expert_sources.h; an expert that is there twice, and routed-expert
// tensors that no layer can use, are Error(kFormat); other tensors that are not needed are listed in ignored_tensors.
ModelSources resolve_model_tensors(const TensorIndex &index, const ModelConfig &config,
                                   const std::string &missing_shards);

// Calls `visit` once for every matrix and vector of the model, routed experts included, in the
// order of the model. Those that share a packed tensor have its name. A tied embedding is visited
// once. A source is valid during the call.
void visit_sources(const ModelSources &sources,
                   const std::function<void(const WeightSource &)> &visit);

}  // namespace colibri

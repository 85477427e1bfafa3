// SPDX-License-Identifier: Apache-2.0
//
// Which tensors a model needs, under which names and of which shapes: one table for loading,
// planning and reports.

#pragma once

#include <functional>
#include <string>

#include "lib/snapshot/snapshot.h"

namespace colibri {

// Finds every tensor that `config` needs. First a census over names alone: if anything is absent,
// one Error(kIncomplete) names the number of absent tensors, their layers, the first of them in the
// order of the model, the shards found and `missing_shards` (may be empty). Fused
// expert tensors in the place of absent ones are Error(kUnsupported). Then shapes and formats, with
// the errors of weight_source.h. Routed-expert tensors that no layer can use are
// Error(kFormat); other tensors that are not needed are listed in ignored_tensors.
ModelSources resolve_model_tensors(const TensorIndex &index, const ModelConfig &config,
                                   const std::string &missing_shards);

// Calls `visit` once for every tensor of the model, routed experts included, in the order of the
// model. A tied embedding is visited once.
void visit_sources(const ModelSources &sources,
                   const std::function<void(const WeightSource &)> &visit);

}  // namespace colibri

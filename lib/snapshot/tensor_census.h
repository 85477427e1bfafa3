// SPDX-License-Identifier: Apache-2.0
//
// Whether every tensor that a model needs is there, from names alone.

#pragma once

#include <string>

#include "lib/snapshot/snapshot.h"

namespace colibri {

// One Error(kIncomplete) for everything that is absent: the number of absent tensors, their layers,
// the first of them in the order of the model, the shards found and `missing_shards` (may be empty;
// if it is not, the model is incomplete whatever is there). Experts in two forms at once are
// Error(kFormat), as find_expert_forms() says.
void require_complete(const TensorIndex &index, const ModelConfig &config,
                      const std::string &missing_shards);

}  // namespace colibri

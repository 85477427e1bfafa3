// SPDX-License-Identifier: Apache-2.0
//
// LayerSpec: what a layer is made of, as data. forward.cpp walks a list of these and knows no model
// family; a new family is a new way to fill the list.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/snapshot/model_config.h"

namespace colibri {

struct LayerSpec {
  AttentionKind attention = AttentionKind::kLatent;
  IndexerKind indexer = IndexerKind::kNone;
  uint32_t window = 0;  // keys that a row sees, itself included; 0: all
  FeedForwardKind feed_forward = FeedForwardKind::kDense;
};

// One entry per layer of the trunk.
std::vector<LayerSpec> describe_layers(const ModelConfig &config);

}  // namespace colibri

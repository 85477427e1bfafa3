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

// The one place that knows what passes do not compute yet, although lib/snapshot reads it. Throws
// Error(kUnsupported): the architecture and everything that is missing for it.
void require_runnable(const ModelConfig &config);

}  // namespace colibri

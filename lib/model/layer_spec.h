// SPDX-License-Identifier: Apache-2.0
//
// LayerSpec: what a layer is made of, as data. forward.cpp walks a list of these and knows no model
// family; a new family is a new way to fill the list.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/snapshot/model_config.h"

namespace colibri {

enum class AttentionKind : uint8_t {
  kLatent,  // multi-head latent attention (MLA), absorbed form
};

struct LayerSpec {
  AttentionKind attention = AttentionKind::kLatent;
  IndexerKind indexer = IndexerKind::kNone;
  FeedForwardKind feed_forward = FeedForwardKind::kDense;
};

// One entry per layer of the trunk.
std::vector<LayerSpec> describe_layers(const ModelConfig &config);

}  // namespace colibri

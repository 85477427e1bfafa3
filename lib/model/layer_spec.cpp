// SPDX-License-Identifier: Apache-2.0
//
// From the validated configuration to the list of layers.

#include "lib/model/layer_spec.h"

namespace colibri {

std::vector<LayerSpec> describe_layers(const ModelConfig &config) {
  std::vector<LayerSpec> layers(config.n_layers);
  for (uint32_t i = 0; i < config.n_layers; ++i) {
    layers[i].attention = config.attention;
    layers[i].indexer = config.index_top_k > 0 ? config.indexer_kinds[i] : IndexerKind::kNone;
    layers[i].window = config.windows.empty() ? 0 : config.windows[i];
    layers[i].feed_forward = config.feed_forward_kinds[i];
  }
  return layers;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// From the validated configuration to the list of layers.

#include "lib/model/layer_spec.h"

#include <string>

#include "lib/base/status.h"

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

void require_runnable(const ModelConfig &config) {
  const struct {
    bool is_needed;
    const char *name;
  } missing[] = {
      {config.has_sinks, "attention sinks"},
      {config.has_expert_bias, "biases of experts"},
  };
  std::string text;
  for (const auto &part : missing) {
    if (part.is_needed) text += (text.empty() ? "" : ", ") + std::string(part.name);
  }
  if (text.empty()) return;
  throw_error(StatusCode::kUnsupported,
              "models of the architecture %s are not run yet; missing: %s",
              config.model_type.c_str(), text.c_str());
}

}  // namespace colibri

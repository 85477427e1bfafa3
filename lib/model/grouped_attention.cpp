// SPDX-License-Identifier: Apache-2.0
//
// Grouped-query attention. Queries and keys are normed where a model does so, then rotated; values
// are neither. Keys and values of all rows are in their slots before the first row attends.

#include "lib/model/pass.h"

namespace colibri {
namespace {

void project_inputs(const Pass &pass, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const size_t query_width = size_t{config.n_heads} * config.head_width;
  const size_t key_width = size_t{config.n_kv_heads} * config.head_width;
  const Product products[] = {
      {&weights.query, workspace.query, query_width, false, weights.query_bias},
      {&weights.key, workspace.key, key_width, false, weights.key_bias},
      {&weights.value, workspace.value, key_width, false, weights.value_bias},
  };
  run_products(pass, {workspace.normed, config.width, pass.n_rows(), config.width}, products);
}

// Norms the heads of each row together or one by one: their rows lie without gaps, so that heads
// are short rows.
void norm_heads(const Pass &pass, float *x, uint32_t n_heads, const float *weight) {
  const ModelConfig &config = pass.config;
  const bool is_whole = config.query_key_norm == QueryKeyNorm::kWhole;
  NormArgs args;
  args.width = is_whole ? n_heads * config.head_width : config.head_width;
  args.n_rows = is_whole ? pass.n_rows() : pass.n_rows() * n_heads;
  args.x = x;
  args.x_stride = args.width;
  args.y = x;
  args.y_stride = args.width;
  args.weight = weight;
  args.eps = config.rms_norm_eps;
  pass.backend.rms_norm(args);
}

void rotate(const Pass &pass, float *x, uint32_t n_heads) {
  const size_t head_width = pass.config.head_width;
  rotate_heads(pass, x, n_heads * head_width, head_width, n_heads,
               pass.config.rotary.is_interleaved);
}

void project_output(const Pass &pass, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const uint32_t depth = config.n_heads * config.head_width;
  const Product output = {&weights.output, workspace.projected, config.width, false,
                          weights.output_bias};
  run_products(pass, {workspace.context, depth, pass.n_rows(), depth}, {&output, 1});
  pass.backend.add({workspace.hidden, config.width, workspace.projected, config.width,
                    pass.n_rows(), config.width});
}

}  // namespace

void run_grouped_attention(const Pass &pass, uint32_t layer, const LayerSpec &spec) noexcept {
  const ModelConfig &config = pass.config;
  const LayerWeights &weights = pass.weights.layers[layer];
  Workspace &workspace = pass.workspace;
  project_inputs(pass, weights);
  if (config.query_key_norm != QueryKeyNorm::kNone) {
    norm_heads(pass, workspace.query, config.n_heads, weights.query_norm);
    norm_heads(pass, workspace.key, config.n_kv_heads, weights.key_norm);
  }
  rotate(pass, workspace.query, config.n_heads);
  rotate(pass, workspace.key, config.n_kv_heads);
  const size_t key_width = size_t{config.n_kv_heads} * config.head_width;
  store_rows(pass, layer, KvPart::kKeys, workspace.key, key_width);
  store_rows(pass, layer, KvPart::kValues, workspace.value, key_width);
  attend(pass, layer, spec, {workspace.query, workspace.context, config.head_width, weights.sinks});
  project_output(pass, weights);
}

}  // namespace colibri

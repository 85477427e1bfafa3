// SPDX-License-Identifier: Apache-2.0
//
// Multi-head latent attention, absorbed form for every row: prompt chunks and decode rows must give
// the same bits, so there is one form only. Keys of a position are [latent | rope key], values are
// the latent part of the same row.

#include <cstring>

#include "lib/model/pass.h"

namespace colibri {
namespace {

// First products of the layer: query latent or, without one, queries; raw latent and rope key;
// index key and index weights.
void project_inputs(const Pass &pass, const LayerWeights &weights, bool has_indexer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const Product query_latent = {&weights.query_a, workspace.query_latent, config.query_latent};
  const Product query = {&weights.query, workspace.query,
                         size_t{config.n_heads} * config.query_head_width()};
  const Product products[] = {
      config.query_latent > 0 ? query_latent : query,
      {&weights.kv_a, workspace.kv_raw, config.kv_latent + config.rotary.width},
      {&weights.index_key, workspace.index_key, config.index_width},
      {&weights.index_weights, workspace.index_weights, config.index_heads, true},
  };
  run_products(pass, {workspace.normed, config.width, pass.n_rows(), config.width},
               {products, has_indexer ? size_t{4} : size_t{2}});
}

NormArgs latent_norm(const Pass &pass, float *x, size_t stride, uint32_t width,
                     const float *weight) {
  NormArgs args;
  args.x = x;
  args.x_stride = stride;
  args.y = x;
  args.y_stride = stride;
  args.n_rows = pass.n_rows();
  args.width = width;
  args.weight = weight;
  args.eps = pass.latent_norm_eps;
  return args;
}

// Normalised latent and rotated rope key of each row into its slot.
void write_keys(const Pass &pass, uint32_t layer, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  float *raw = pass.workspace.kv_raw;
  const size_t width = config.kv_latent + config.rotary.width;
  pass.backend.rms_norm(latent_norm(pass, raw, width, config.kv_latent, weights.kv_a_norm));
  rotate_heads(pass, raw + config.kv_latent, width, 0, 1, config.rotary.is_interleaved);
  store_rows(pass, layer, KvPart::kKeys, raw, width);
}

// Query latent to queries of attention and, on full layers, of the indexer.
void expand_query_latent(const Pass &pass, const LayerWeights &weights, bool has_indexer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  pass.backend.rms_norm(latent_norm(pass, workspace.query_latent, config.query_latent,
                                    config.query_latent, weights.query_a_norm));
  const Product products[] = {
      {&weights.query_b, workspace.query, size_t{config.n_heads} * config.query_head_width()},
      {&weights.index_query, workspace.index_query,
       size_t{config.index_heads} * config.index_width},
  };
  run_products(pass,
               {workspace.query_latent, config.query_latent, pass.n_rows(), config.query_latent},
               {products, has_indexer ? size_t{2} : size_t{1}});
}

void project_queries(const Pass &pass, const LayerWeights &weights, bool has_indexer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  if (config.query_latent > 0) expand_query_latent(pass, weights, has_indexer);
  const size_t head_width = config.query_head_width();
  rotate_heads(pass, workspace.query + config.nope_width, config.n_heads * head_width, head_width,
               config.n_heads, config.rotary.is_interleaved);
  if (!has_indexer) return;
  rotate_heads(pass, workspace.index_query, size_t{config.index_heads} * config.index_width,
               config.index_width, config.index_heads, config.has_interleaved_index_rope);
}

// [W_UK^T q_nope | q_rope] per head.
void absorb_queries(const Pass &pass, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const size_t head_width = config.nope_width + config.rotary.width;
  const size_t key_width = config.kv_latent + config.rotary.width;
  HeadProducts products;
  products.matrices = weights.key_up;
  products.x = workspace.query;
  products.x_row_stride = config.n_heads * head_width;
  products.x_head_stride = head_width;
  products.y = workspace.absorbed_query;
  products.y_row_stride = config.n_heads * key_width;
  products.y_head_stride = key_width;
  run_head_products(pass, products);
  for (size_t i = 0; i < size_t{pass.n_rows()} * config.n_heads; ++i) {
    std::memcpy(workspace.absorbed_query + i * key_width + config.kv_latent,
                workspace.query + i * head_width + config.nope_width,
                config.rotary.width * sizeof(float));
  }
}

// Contexts to values per head, then the output projection added to the residual stream.
void project_output(const Pass &pass, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  HeadProducts products;
  products.matrices = weights.value_up;
  products.x = workspace.context;
  products.x_row_stride = size_t{config.n_heads} * config.kv_latent;
  products.x_head_stride = config.kv_latent;
  products.y = workspace.head_values;
  products.y_row_stride = size_t{config.n_heads} * config.value_width;
  products.y_head_stride = config.value_width;
  run_head_products(pass, products);
  const uint32_t depth = config.n_heads * config.value_width;
  const Product output = {&weights.output, workspace.projected, config.width, false};
  run_products(pass, {workspace.head_values, depth, pass.n_rows(), depth}, {&output, 1});
  pass.backend.add({workspace.hidden, config.width, workspace.projected, config.width,
                    pass.n_rows(), config.width});
}

// Index keys are normalised over their whole width, then rotated at the front.
void finish_index_keys(const Pass &pass, const LayerWeights &weights) {
  const uint32_t width = pass.config.index_width;
  constexpr float kIndexNormEps =
      1e-6f;  // of this LayerNorm in every published model, whatever rms_norm_eps is
  NormArgs args = latent_norm(pass, pass.workspace.index_key, width, width, weights.index_key_norm);
  args.bias = weights.index_key_norm_bias;
  args.eps = kIndexNormEps;
  pass.backend.layer_norm(args);
  rotate_heads(pass, pass.workspace.index_key, width, 0, 1, pass.config.has_interleaved_index_rope);
}

}  // namespace

void run_latent_attention(const Pass &pass, uint32_t layer, const LayerSpec &spec) noexcept {
  const LayerWeights &weights = pass.weights.layers[layer];
  Workspace &workspace = pass.workspace;
  const bool has_indexer = spec.indexer == IndexerKind::kFull;
  project_inputs(pass, weights, has_indexer);
  write_keys(pass, layer, weights);
  project_queries(pass, weights, has_indexer);
  if (has_indexer) {
    finish_index_keys(pass, weights);
    run_indexer(pass, layer);
  }
  absorb_queries(pass, weights);
  attend(pass, layer, spec, {workspace.absorbed_query, workspace.context, pass.config.kv_latent});
  project_output(pass, weights);
}

}  // namespace colibri

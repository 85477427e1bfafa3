// SPDX-License-Identifier: Apache-2.0
//
// Multi-head latent attention, absorbed form for every row: prompt chunks and decode rows must give
// the same bits, so there is one form only. Keys of a position are [latent | rope key], values are
// the latent part of the same row.

#include <cmath>
#include <cstring>

#include "lib/model/pass.h"

namespace colibri {
namespace {

// First products of the layer: query latent, raw latent and rope key, index key and index weights.
void project_inputs(const Pass &pass, const LayerWeights &weights, bool has_indexer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const Product products[] = {
      {&weights.query_a, workspace.query_latent, config.query_latent, false},
      {&weights.kv_a, workspace.kv_raw, config.kv_latent + config.rope_width, false},
      {&weights.index_key, workspace.index_key, config.index_width, false},
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

void rotate(const Pass &pass, float *x, size_t row_stride, size_t head_stride, uint32_t n_heads,
            bool is_interleaved) {
  RopeArgs args;
  args.x = x;
  args.row_stride = row_stride;
  args.head_stride = head_stride;
  args.n_rows = pass.n_rows();
  args.n_heads = n_heads;
  args.width = pass.config.rope_width;
  args.is_interleaved = is_interleaved;
  args.cosines = pass.workspace.cosines;
  args.sines = pass.workspace.sines;
  pass.backend.rope(args);
}

// Normalised latent and rotated rope key of each row into its slot.
void write_keys(const Pass &pass, uint32_t layer, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  float *raw = pass.workspace.kv_raw;
  const size_t width = config.kv_latent + config.rope_width;
  pass.backend.rms_norm(latent_norm(pass, raw, width, config.kv_latent, weights.kv_a_norm));
  rotate(pass, raw + config.kv_latent, width, 0, 1, config.has_interleaved_rope);
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    std::memcpy(pass.kv_layout.rows(row.slot, layer) + row.position * width, raw + r * width,
                width * sizeof(float));
  }
}

// Query latent to queries of attention and, on full layers, of the indexer.
void project_queries(const Pass &pass, const LayerWeights &weights, bool has_indexer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  pass.backend.rms_norm(latent_norm(pass, workspace.query_latent, config.query_latent,
                                    config.query_latent, weights.query_a_norm));
  const size_t head_width = config.nope_width + config.rope_width;
  const Product products[] = {
      {&weights.query_b, workspace.query, config.n_heads * head_width, false},
      {&weights.index_query, workspace.index_query, size_t{config.index_heads} * config.index_width,
       false},
  };
  run_products(pass,
               {workspace.query_latent, config.query_latent, pass.n_rows(), config.query_latent},
               {products, has_indexer ? size_t{2} : size_t{1}});
  rotate(pass, workspace.query + config.nope_width, config.n_heads * head_width, head_width,
         config.n_heads, config.has_interleaved_rope);
  if (!has_indexer) return;
  rotate(pass, workspace.index_query, size_t{config.index_heads} * config.index_width,
         config.index_width, config.index_heads, config.has_interleaved_index_rope);
}

// [W_UK^T q_nope | q_rope] per head.
void absorb_queries(const Pass &pass, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const size_t head_width = config.nope_width + config.rope_width;
  const size_t key_width = config.kv_latent + config.rope_width;
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
                config.rope_width * sizeof(float));
  }
}

void attend(const Pass &pass, uint32_t layer) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const size_t key_width = config.kv_latent + config.rope_width;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    AttentionRow &target = workspace.attention_rows[r];
    target.keys = pass.kv_layout.rows(row.slot, layer);
    target.values = target.keys;
    const bool is_sparse = uses_selection(pass, row);
    target.positions = is_sparse ? workspace.selected + size_t{r} * config.index_top_k : nullptr;
    target.first_key = 0;
    target.n_keys = is_sparse ? config.index_top_k : row.position + 1;
    // Values are the front of the keys.
    workspace.counters.kv_bytes += uint64_t{target.n_keys} * key_width * sizeof(float);
  }
  AttentionArgs args;
  args.rows = {workspace.attention_rows.data(), pass.n_rows()};
  args.queries = workspace.absorbed_query;
  args.query_row_stride = config.n_heads * key_width;
  args.query_head_stride = key_width;
  args.key_stride = key_width;
  args.value_stride = key_width;
  args.n_heads = config.n_heads;
  args.key_width = static_cast<uint32_t>(key_width);
  args.value_width = config.kv_latent;
  // The width of an unabsorbed query, not the absorbed one.
  args.scale = 1.0f / std::sqrt(static_cast<float>(config.nope_width + config.rope_width));
  args.out = workspace.context;
  args.out_row_stride = size_t{config.n_heads} * config.kv_latent;
  args.out_head_stride = config.kv_latent;
  pass.backend.attention(args, *workspace.scratch);
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
  rotate(pass, pass.workspace.index_key, width, 0, 1, pass.config.has_interleaved_index_rope);
}

}  // namespace

void run_latent_attention(const Pass &pass, uint32_t layer, const LayerSpec &spec) noexcept {
  const LayerWeights &weights = pass.weights.layers[layer];
  const bool has_indexer = spec.indexer == IndexerKind::kFull;
  project_inputs(pass, weights, has_indexer);
  write_keys(pass, layer, weights);
  project_queries(pass, weights, has_indexer);
  if (has_indexer) {
    finish_index_keys(pass, weights);
    run_indexer(pass, layer);
  }
  absorb_queries(pass, weights);
  attend(pass, layer);
  project_output(pass, weights);
}

}  // namespace colibri

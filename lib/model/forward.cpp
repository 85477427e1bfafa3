// SPDX-License-Identifier: Apache-2.0
//
// Every layer is: norm, attention added to the residual stream, norm, feed-forward added to it. The
// head runs only for rows that ask for logits.

#include "lib/model/forward.h"

#include <cstring>

namespace colibri {
namespace {

void norm_hidden(const Pass &pass, const float *weight) {
  NormArgs args;
  args.x = pass.workspace.hidden;
  args.x_stride = pass.config.width;
  args.y = pass.workspace.normed;
  args.y_stride = pass.config.width;
  args.n_rows = pass.n_rows();
  args.width = pass.config.width;
  args.weight = weight;
  args.eps = pass.config.rms_norm_eps;
  pass.backend.rms_norm(args);
}

void begin(const Pass &pass, const RotaryFrequencies &rotary) {
  Workspace &workspace = pass.workspace;
  const size_t half = rotary.width() / 2;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    workspace.token_ids[r] = pass.rows[r].token;
    rotary.fill(pass.rows[r].position, workspace.cosines + r * half, workspace.sines + r * half);
    pass.row_status[r] = Status();
  }
  const WeightLayout &embedding = pass.weights.embedding.layout;
  workspace.counters.dense_bytes +=
      uint64_t{pass.n_rows()} * (embedding.panel_bytes() + embedding.scale_panel_bytes());
  pass.backend.embed({pass.weights.embedding, workspace.token_ids, pass.n_rows(), workspace.hidden,
                      pass.config.width});
}

void observe_hidden(const Pass &pass, int32_t layer) {
  if (pass.observer != nullptr) pass.observer->on_hidden(layer, pass.rows, pass.workspace.hidden);
}

void run_layer(const Pass &pass, uint32_t layer, const LayerSpec &spec) {
  const LayerWeights &weights = pass.weights.layers[layer];
  norm_hidden(pass, weights.input_norm);
  switch (spec.attention) {
    case AttentionKind::kLatent:
      run_latent_attention(pass, layer, spec);
      break;
    case AttentionKind::kGrouped:
      run_grouped_attention(pass, layer, spec);
      break;
  }
  norm_hidden(pass, weights.attention_norm);
  switch (spec.feed_forward) {
    case FeedForwardKind::kDense:
      run_dense_feed_forward(pass, layer);
      break;
    case FeedForwardKind::kMoe:
      run_moe(pass, layer);
      break;
  }
}

void run_head(const Pass &pass) {
  Workspace &workspace = pass.workspace;
  const size_t width = pass.config.width;
  uint32_t n_logits_rows = 0;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const int32_t target = pass.rows[r].logits_row;
    if (target < 0) continue;
    std::memcpy(workspace.head_input + static_cast<size_t>(target) * width,
                workspace.hidden + r * width, width * sizeof(float));
    ++n_logits_rows;
  }
  if (n_logits_rows == 0) return;
  NormArgs args;
  args.x = workspace.head_input;
  args.x_stride = width;
  args.y = workspace.head_normed;
  args.y_stride = width;
  args.n_rows = n_logits_rows;
  args.width = pass.config.width;
  args.weight = pass.weights.final_norm;
  args.eps = pass.config.rms_norm_eps;
  pass.backend.rms_norm(args);
  const Product head = {&pass.weights.head, workspace.logits, pass.config.vocabulary_size, false};
  run_products(pass, {workspace.head_normed, width, n_logits_rows, pass.config.width}, {&head, 1});
}

}  // namespace

void run_forward(const Pass &pass, std::span<const LayerSpec> layers,
                 const RotaryFrequencies &rotary) noexcept {
  begin(pass, rotary);
  observe_hidden(pass, -1);
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    run_layer(pass, layer, layers[layer]);
    observe_hidden(pass, static_cast<int32_t>(layer));
  }
  run_head(pass);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Gated MLP of dense layers and of the shared experts: down( silu(gate x) * (up x) ).

#include "lib/model/feed_forward.h"

namespace colibri {

void run_gated_mlp(const Pass &pass, const LayerWeights &weights, float *out) noexcept {
  Workspace &workspace = pass.workspace;
  const uint32_t inner = weights.dense_gate.layout.columns;
  const uint32_t width = pass.config.width;
  const Product gate_up[] = {
      {&weights.dense_gate, workspace.gate, inner, false},
      {&weights.dense_up, workspace.up, inner, false},
  };
  run_products(pass, {workspace.normed, width, pass.n_rows(), width}, gate_up);
  pass.backend.silu({workspace.gate, workspace.up, workspace.gate, inner, pass.n_rows(), inner});
  const Product down = {&weights.dense_down, out, width, false};
  run_products(pass, {workspace.gate, inner, pass.n_rows(), inner}, {&down, 1});
}

void run_dense_feed_forward(const Pass &pass, uint32_t layer) noexcept {
  Workspace &workspace = pass.workspace;
  run_gated_mlp(pass, pass.weights.layers[layer], workspace.projected);
  const uint32_t width = pass.config.width;
  pass.backend.add({workspace.hidden, width, workspace.projected, width, pass.n_rows(), width});
}

}  // namespace colibri

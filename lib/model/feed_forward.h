// SPDX-License-Identifier: Apache-2.0
//
// The gated MLP that dense layers and shared experts have in common.

#pragma once

#include "lib/model/pass.h"

namespace colibri {

// out[r] = down( silu(gate normed[r]) * (up normed[r]) ), [R][D], with the layer's dense matrices.
// Uses workspace.gate and up.
void run_gated_mlp(const Pass &pass, const LayerWeights &weights, float *out) noexcept;

}  // namespace colibri

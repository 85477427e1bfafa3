// SPDX-License-Identifier: Apache-2.0
//
// The order of a forward pass: embedding, layers, head. Knows no model family.

#pragma once

#include <span>

#include "lib/model/pass.h"

namespace colibri {

void run_forward(const Pass &pass, std::span<const LayerSpec> layers,
                 const RotaryFrequencies &rotary) noexcept;

}  // namespace colibri

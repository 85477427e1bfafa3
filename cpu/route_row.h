// SPDX-License-Identifier: Apache-2.0
//
// The router's choice for one row.

#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/backend/op_args.h"

namespace colibri::cpu {

// Floats of scratch for one row.
constexpr size_t route_scratch_floats(size_t n_experts) noexcept {
  return 3 * n_experts;
}

// Chooses the experts of `row`. The first n_experts floats of the scratch hold what weights are
// made of: the sigmoid of the row's logits, their softmax, or the logits, by args.kind.
void route_row(const RouteArgs &args, size_t row, float *scratch) noexcept;

}  // namespace colibri::cpu

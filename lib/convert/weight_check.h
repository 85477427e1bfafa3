// SPDX-License-Identifier: Apache-2.0
//
// The refusal of weights that are NaN or infinite, by name and place.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/snapshot/safetensors.h"

namespace colibri {

// Elements of a tensor whose rows have `columns` elements (not 0).
struct ElementRange {
  uint64_t first = 0;    // number of the first element in the tensor
  uint64_t columns = 1;  // of a row
};

// kNonFinite with tensor, row and column of the first weight that is no finite number. Allocates
// nothing.
Status check_weights(const std::string &tensor, const ElementRange &range,
                     std::span<const float> weights) noexcept;

// The same for elements as they are stored; bytes of types that are no floats are all right.
Status check_stored(const std::string &tensor, TensorType type, const ElementRange &range,
                    std::span<const uint8_t> bytes) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Reads one column of a packed matrix back as floats: an embedding look-up.

#pragma once

#include <cstddef>

#include "lib/base/weight_layout.h"

namespace colibri::cpu {

// y[0 .. depth-1] = the dequantised weights of the column: float(q) * scale rounded, or the widened
// value.
void read_column(const PackedMatrix &matrix, size_t column, float *y) noexcept;

}  // namespace colibri::cpu

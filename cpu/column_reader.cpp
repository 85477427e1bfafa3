// SPDX-License-Identifier: Apache-2.0
//
// Plain loops: an embedding reads one column per token, which is nothing beside the layers.

#include "cpu/column_reader.h"

namespace colibri::cpu {

void read_column(const PackedMatrix &matrix, size_t column, float *y) noexcept {
  for (size_t d = 0; d < matrix.layout.depth; ++d) y[d] = unpack_weight(matrix, column, d);
}

}  // namespace colibri::cpu

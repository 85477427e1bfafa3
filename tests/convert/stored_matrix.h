// SPDX-License-Identifier: Apache-2.0
//
// One matrix in a file in memory, in any form that a source can have.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/snapshot/weight_source.h"
#include "tests/snapshot/fixture.h"

namespace colibri::test {

// The tensors of a matrix: itself, and its scales where the form has them. Forms: F32, F16, BF16,
// F8, "container F8", INT8, INT4, or INT4 with the group behind it, as "INT4 32". The weights mean
// nothing and are finite.
std::vector<TestTensor> make_stored_matrix(const std::string &form, const std::string &name,
                                           uint64_t rows, uint64_t columns);

class StoredMatrix {
 public:
  StoredMatrix(const std::string &form, uint64_t rows, uint64_t columns);
  // The first of the tensors is the matrix.
  StoredMatrix(const std::vector<TestTensor> &tensors, uint64_t rows, uint64_t columns);

  const TensorIndex &index() const { return index_; }
  const WeightSource &source() const { return source_; }
  std::vector<float> weights() const;  // [rows][columns]

 private:
  TensorIndex index_;
  WeightSource source_;
};

// Rows and columns: panels, lines, FP8 blocks and groups that are not full.
const std::vector<std::pair<uint64_t, uint64_t>> kAwkwardShapes = {{2, 1},   {15, 7},   {16, 8},
                                                                   {17, 33}, {40, 130}, {129, 257}};

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Makes the bytes of results that are not packed: stored tensors as they are, and matrices rounded
// to BF16.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/convert/sliced_tasks.h"
#include "lib/convert/stored_rows.h"

namespace colibri {

class PlainWriter {
 public:
  PlainWriter(const TensorIndex &index, ThreadPool &threads);

  // The stored bytes of a tensor of the index, whether the model uses it or not. Throws Error: kIo;
  // kNonFinite for an element that is NaN or infinite; and what sink throws.
  void copy(const std::string &tensor, ByteSink sink);

  // A float or FP8 matrix, row-major in BF16. Throws Error: kIo; kNonFinite for a weight that is
  // NaN or infinite, or too large for BF16; and what sink throws.
  void round(const WeightSource &source, ByteSink sink);

 private:
  struct Worker {
    StoredRows stored;
    std::vector<float> weights;
  };

  const TensorIndex &index_;
  ThreadPool &threads_;
  std::vector<Worker> workers_;
  std::vector<uint8_t> bytes_;  // of a slice
};

}  // namespace colibri

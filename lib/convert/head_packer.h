// SPDX-License-Identifier: Apache-2.0
//
// Makes the bytes of a kv_b_proj in PackedForm::kHeads: per head the key half transposed, then the
// value half, each quantised along the axis that attention multiplies over.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/convert/panel_packer.h"
#include "lib/convert/sliced_tasks.h"
#include "lib/convert/stored_rows.h"
#include "lib/snapshot/packed_manifest.h"

namespace colibri {

class HeadPacker {
 public:
  HeadPacker(const TensorIndex &index, ThreadPool &threads, ScaleSearch search);

  // Hands layout.n_heads * layout.head_bytes() to `sink`. `source` is a float or FP8 matrix of
  // n_heads * (nope depth + value columns) rows. Memory: a slice of heads, one head in float32 twice
  // per thread. Throws as MatrixPacker::stream.
  ErrorSums stream(const WeightSource &source, const PackedLayout &layout, ByteSink sink);

 private:
  struct Worker {
    StoredRows stored;
    std::vector<float> weights;
    std::vector<float> transposed;  // the key half: [kv_latent][nope]
    PanelPacker key, value;
  };

  void prepare(const WeightSource &source, const PackedLayout &layout);
  Status make_head(const WeightSource &source, const PackedLayout &layout, size_t head,
                   uint8_t *place, Worker *worker, ErrorSums *sums) noexcept;

  const TensorIndex &index_;
  ThreadPool &threads_;
  ScaleSearch search_;
  std::vector<Worker> workers_;
  std::vector<uint8_t> heads_;   // of a slice
  std::vector<ErrorSums> sums_;  // of the heads of a slice
};

}  // namespace colibri

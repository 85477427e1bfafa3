// SPDX-License-Identifier: Apache-2.0
//
// Makes the bytes of packed matrices, panel by panel and in parallel.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/convert/panel_packer.h"
#include "lib/convert/sliced_tasks.h"
#include "lib/convert/stored_rows.h"

namespace colibri {

class MatrixPacker {
 public:
  MatrixPacker(const TensorIndex &index, ThreadPool &threads, ScaleSearch search);

  // Hands the layout.total_bytes() of one matrix to `sink`. If `layout` is packed_layout(source),
  // the matrix is packed as it is stored; otherwise a float or FP8 matrix is quantised. Memory: a
  // slice, the scales of the matrix, 16 rows per thread; of MXFP4, and of a matrix that is every
  // other row of a tensor or is stored inputs first, all that read_stored() reads, since a panel
  // would touch most of it. Throws Error: kIo; kNonFinite for a weight, or a scale of a stored
  // matrix, that is NaN or infinite; kMemory; and what sink throws.
  ErrorSums stream(const WeightSource &source, const WeightLayout &layout, ByteSink sink);

 private:
  struct Worker {
    StoredRows stored;
    std::vector<float> weights;
    PanelPacker packer;
  };

  // A bias of an expert, widened.
  ErrorSums stream_vector(const WeightSource &source, const WeightLayout &layout, ByteSink sink);
  // The whole of such a source, in staging_; checks its exponents.
  void read_whole(const WeightSource &source);
  void prepare(const WeightSource &source, const WeightLayout &layout);
  // Rows first .. first + n - 1 of the source, checked: to worker->stored, and, if they are not to
  // be packed as integers, widened to worker->weights.
  Status read_rows(const WeightSource &source, bool is_kept_integer, uint64_t first, uint64_t n,
                   Worker *worker) noexcept;
  Status make_panel(const WeightSource &source, bool is_kept, size_t panel, const PanelPlace &place,
                    Worker *worker, ErrorSums *sums) noexcept;

  const TensorIndex &index_;
  ThreadPool &threads_;
  ScaleSearch search_;
  std::vector<Worker> workers_;
  Buffer staging_;               // of a source that is read as a whole
  std::vector<uint8_t> values_;  // of a slice
  std::vector<uint8_t> scales_;  // of the matrix
  std::vector<ErrorSums> sums_;  // of the panels of a slice
};

}  // namespace colibri

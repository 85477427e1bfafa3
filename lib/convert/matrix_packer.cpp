// SPDX-License-Identifier: Apache-2.0
//
// Values of all panels stand in front of the scales of all panels, so values are handed on slice by
// slice and scales are kept until the end. Each task reads the rows that it packs.

#include "lib/convert/matrix_packer.h"

#include <algorithm>

#include "lib/base/number_formats.h"
#include "lib/convert/weight_check.h"
#include "lib/residency/weight_packing.h"

namespace colibri {
namespace {

// Integer and FP8 scales; a bad one would make a whole group bad.
Status check_scales(const WeightSource &source, uint64_t first_row,
                    const StoredRows &stored) noexcept {
  const uint64_t n_columns = scale_columns(source);
  if (n_columns == 0) return Status();
  // A row of scales belongs to a row of weights; to one of blocks in FP8.
  const uint64_t scale_row =
      source.format == StoredFormat::kFp8Block ? first_row / kFp8BlockWidth : first_row;
  const Status status = check_weights(source.name, {scale_row * n_columns, n_columns},
                                      {stored.scales(), stored.n_scale_rows() * n_columns});
  if (status.is_ok()) return status;
  return make_status(status.code(), "among the scales %s", status.message());
}

}  // namespace

MatrixPacker::MatrixPacker(const TensorIndex &index, ThreadPool &threads, ScaleSearch search)
    : index_(index), threads_(threads), search_(search), workers_(threads.n_threads()) {}

void MatrixPacker::prepare(const WeightSource &source, const WeightLayout &layout) {
  for (Worker &worker : workers_) {
    worker.stored.reserve(source, kPanelColumns);
    const size_t n_weights = kPanelColumns * layout.depth;
    if (worker.weights.size() < n_weights) worker.weights.resize(n_weights);
    worker.packer.prepare(layout);
  }
}

Status MatrixPacker::make_panel(const WeightSource &source, bool is_kept, size_t panel,
                                const PanelPlace &place, Worker *worker, ErrorSums *sums) noexcept {
  const uint64_t first = panel * kPanelColumns;
  const uint64_t n = std::min<uint64_t>(kPanelColumns, source.rows - first);
  Status status = worker->stored.read(index_, source, first, n);
  if (status.is_ok()) status = check_scales(source, first, worker->stored);
  const bool is_integer = is_kept && packed_layout(source).is_integer();
  if (status.is_ok() && !is_integer) {
    worker->stored.widen(worker->weights.data());
    status = check_weights(source.name, {first * source.columns, source.columns},
                           {worker->weights.data(), n * source.columns});
  }
  if (!status.is_ok()) return status;
  if (is_kept) {
    worker->packer.pack(worker->stored.values(), worker->stored.scales(), n, place);
  } else {
    *sums = worker->packer.quantise(search_, worker->weights.data(), n, place);
  }
  return status;
}

ErrorSums MatrixPacker::stream(const WeightSource &source, const WeightLayout &layout,
                               ByteSink sink) {
  prepare(source, layout);
  const bool is_kept = layout == packed_layout(source);
  const size_t panel_bytes = layout.panel_bytes();
  const size_t scale_bytes = layout.scale_panel_bytes();
  const size_t n_slice =
      std::min(layout.n_panels(), slice_items(panel_bytes, threads_.n_threads()));
  values_.resize(std::max(values_.size(), n_slice * panel_bytes));
  sums_.resize(std::max(sums_.size(), n_slice));
  scales_.assign(layout.total_bytes() - layout.scale_offset(), 0);

  ErrorSums total;
  run_slices(
      threads_, layout.n_panels(), n_slice,
      [&](size_t panel, size_t place, uint32_t worker) {
        sums_[place] = ErrorSums();
        const PanelPlace target = {values_.data() + place * panel_bytes,
                                   scales_.data() + panel * scale_bytes};
        return make_panel(source, is_kept, panel, target, &workers_[worker], &sums_[place]);
      },
      [&](size_t, size_t n) {
        for (size_t place = 0; place < n; ++place) total += sums_[place];
        sink({values_.data(), n * panel_bytes});
      });
  const std::vector<uint8_t> gap(layout.scale_offset() - layout.n_panels() * panel_bytes, 0);
  sink(gap);
  sink(scales_);
  return total;
}

}  // namespace colibri

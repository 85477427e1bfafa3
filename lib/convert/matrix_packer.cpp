// SPDX-License-Identifier: Apache-2.0
//
// Values of all panels stand in front of the scales of all panels, so values are handed on slice by
// slice and scales are kept until the end. Each task reads the rows that it packs, from the file or
// from memory.

#include "lib/convert/matrix_packer.h"

#include <algorithm>
#include <cstring>

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

bool is_read_whole(const WeightSource &source) noexcept {
  return source.format == StoredFormat::kMxFp4 || source.row_step != 1 || source.is_transposed ||
         source.first_row != 0;
}

float widen_element(const WeightSource &source, const PackingSource &stored, uint64_t row,
                    uint64_t column) noexcept {
  const uint64_t from = stored.first_row + row * stored.row_step;
  const uint64_t element =
      stored.is_transposed ? column * stored.n_tensor_rows + from : from * source.columns + column;
  if (source.format == StoredFormat::kF32) {
    float value;
    std::memcpy(&value, stored.values + 4 * element, sizeof value);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, stored.values + 2 * element, sizeof bits);
  return source.format == StoredFormat::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
}

}  // namespace

MatrixPacker::MatrixPacker(const TensorIndex &index, ThreadPool &threads, ScaleSearch search)
    : index_(index), threads_(threads), search_(search), workers_(threads.n_threads()) {}

void MatrixPacker::prepare(const WeightSource &source, const WeightLayout &layout) {
  const bool is_whole = is_read_whole(source);
  if (is_whole) read_whole(source);
  for (Worker &worker : workers_) {
    if (!is_whole) worker.stored.reserve(source, kPanelColumns);
    const size_t n_weights = kPanelColumns * layout.depth;
    if (worker.weights.size() < n_weights) worker.weights.resize(n_weights);
    worker.packer.prepare(layout);
  }
}

void MatrixPacker::read_whole(const WeightSource &source) {
  const uint64_t bytes = staging_bytes(source);
  if (staging_.size() < bytes) staging_ = Buffer(bytes, "a matrix to be converted");
  throw_if_failed(read_stored(index_, source, {staging_.data(), staging_.size()}, nullptr));
  if (source.format != StoredFormat::kMxFp4) return;
  const PackingSource stored = stored_matrix(source, {staging_.data(), staging_.size()});
  const Status status = check_stored(source.name, source.scale_type, {0, scale_columns(source)},
                                     {stored.scale_bytes, source.scales.bytes});
  if (!status.is_ok()) throw_error(status.code(), "among the scales %s", status.message());
}

Status MatrixPacker::read_rows(const WeightSource &source, bool is_kept_integer, uint64_t first,
                               uint64_t n, Worker *worker) noexcept {
  if (is_read_whole(source)) {
    if (is_kept_integer) return Status();  // its exponents are checked
    const PackingSource stored = stored_matrix(source, {staging_.data(), staging_.size()});
    for (uint64_t i = 0; i < n * source.columns; ++i) {
      worker->weights[i] =
          widen_element(source, stored, first + i / source.columns, i % source.columns);
    }
  } else {
    Status status = worker->stored.read(index_, source, first, n);
    if (status.is_ok()) status = check_scales(source, first, worker->stored);
    if (!status.is_ok() || is_kept_integer) return status;
    worker->stored.widen(worker->weights.data());
  }
  return check_weights(source.name, {first * source.columns, source.columns},
                       {worker->weights.data(), n * source.columns});
}

Status MatrixPacker::make_panel(const WeightSource &source, bool is_kept, size_t panel,
                                const PanelPlace &place, Worker *worker, ErrorSums *sums) noexcept {
  const uint64_t first = panel * kPanelColumns;
  const uint64_t n = std::min<uint64_t>(kPanelColumns, source.rows - first);
  const bool is_kept_integer = is_kept && packed_layout(source).is_integer();
  const Status status = read_rows(source, is_kept_integer, first, n, worker);
  if (!status.is_ok()) return status;
  if (!is_kept) {
    *sums = worker->packer.quantise(search_, worker->weights.data(), n, place);
  } else if (is_read_whole(source)) {
    PackingSource stored = stored_matrix(source, {staging_.data(), staging_.size()});
    stored.first_row += first * stored.row_step;
    worker->packer.pack(stored, n, place);
  } else {
    worker->packer.pack(worker->stored.values(), worker->stored.scales(), n, place);
  }
  return status;
}

ErrorSums MatrixPacker::stream_vector(const WeightSource &source, const WeightLayout &layout,
                                      ByteSink sink) {
  Buffer staging(staging_bytes(source), "a vector to be converted");
  Buffer vector(layout.total_bytes(), "a vector to be converted");
  throw_if_failed(
      load_vector(index_, source, {staging.data(), staging.size()}, vector.data(), nullptr));
  throw_if_failed(check_weights(source.name, {0, 1},
                                {reinterpret_cast<const float *>(vector.data()), layout.columns}));
  sink({vector.data(), vector.size()});
  return ErrorSums();
}

ErrorSums MatrixPacker::stream(const WeightSource &source, const WeightLayout &layout,
                               ByteSink sink) {
  if (layout.depth == 1 && source.columns == 1 && layout == vector_layout(source)) {
    return stream_vector(source, layout, sink);
  }
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

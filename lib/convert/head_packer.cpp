// SPDX-License-Identifier: Apache-2.0
//
// A head is small, some hundred rows, so each is made by one task from first to last byte.

#include "lib/convert/head_packer.h"

#include <algorithm>

#include "lib/convert/weight_check.h"

namespace colibri {
namespace {

uint64_t head_rows(const PackedLayout &layout) {
  return uint64_t{layout.parts[0].depth} + layout.parts[1].columns;
}

// [rows][columns] to [columns][rows].
void transpose(const float *from, size_t rows, size_t columns, float *to) {
  for (size_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < rows; ++row) to[column * rows + row] = from[row * columns + column];
  }
}

ErrorSums quantise_half(const WeightLayout &layout, ScaleSearch search, const float *rows,
                        uint8_t *place, PanelPacker *packer) {
  ErrorSums sums;
  for (size_t panel = 0; panel < layout.n_panels(); ++panel) {
    const size_t first = panel * kPanelColumns;
    const size_t n = std::min<size_t>(kPanelColumns, layout.columns - first);
    sums +=
        packer->quantise(search, rows + first * layout.depth, n, find_panel(layout, place, panel));
  }
  return sums;
}

}  // namespace

HeadPacker::HeadPacker(const TensorIndex &index, ThreadPool &threads, ScaleSearch search)
    : index_(index), threads_(threads), search_(search), workers_(threads.n_threads()) {}

void HeadPacker::prepare(const WeightSource &source, const PackedLayout &layout) {
  const WeightLayout &key = layout.parts[0];
  for (Worker &worker : workers_) {
    worker.stored.reserve(source, head_rows(layout));
    worker.weights.resize(head_rows(layout) * source.columns);
    worker.transposed.resize(uint64_t{key.columns} * key.depth);
    worker.key.prepare(key);
    worker.value.prepare(layout.parts[1]);
  }
}

Status HeadPacker::make_head(const WeightSource &source, const PackedLayout &layout, size_t head,
                             uint8_t *place, Worker *worker, ErrorSums *sums) noexcept {
  const uint64_t n_rows = head_rows(layout);
  const uint64_t first = head * n_rows;
  Status status = worker->stored.read(index_, source, first, n_rows);
  if (!status.is_ok()) return status;
  float *weights = worker->weights.data();
  worker->stored.widen(weights);
  status = check_weights(source.name, {first * source.columns, source.columns},
                         {weights, n_rows * source.columns});
  if (!status.is_ok()) return status;
  const WeightLayout &key = layout.parts[0];
  transpose(weights, key.depth, key.columns, worker->transposed.data());
  *sums = quantise_half(key, search_, worker->transposed.data(), place + layout.part_offset(0),
                        &worker->key);
  *sums += quantise_half(layout.parts[1], search_, weights + uint64_t{key.depth} * key.columns,
                         place + layout.part_offset(1), &worker->value);
  return status;
}

ErrorSums HeadPacker::stream(const WeightSource &source, const PackedLayout &layout,
                             ByteSink sink) {
  prepare(source, layout);
  const uint64_t head_bytes = layout.head_bytes();
  const size_t n_slice =
      std::min<size_t>(layout.n_heads, slice_items(head_bytes, threads_.n_threads()));
  heads_.assign(n_slice * head_bytes, 0);  // what lies between the parts stays 0
  sums_.resize(n_slice);
  ErrorSums total;
  run_slices(
      threads_, layout.n_heads, n_slice,
      [&](size_t head, size_t place, uint32_t worker) {
        return make_head(source, layout, head, heads_.data() + place * head_bytes,
                         &workers_[worker], &sums_[place]);
      },
      [&](size_t, size_t n) {
        for (size_t place = 0; place < n; ++place) total += sums_[place];
        sink({heads_.data(), n * head_bytes});
      });
  return total;
}

}  // namespace colibri

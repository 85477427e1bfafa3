// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/plain_writer.h"

#include <algorithm>
#include <cstring>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"
#include "lib/convert/weight_check.h"

namespace colibri {
namespace {

constexpr uint64_t kPieceBytes = 1ull << 20;  // whole elements of every type
constexpr uint64_t kRoundedRows = 16;

uint64_t last_extent(const TensorInfo &info) {
  return info.shape.empty() ? 1 : std::max<uint64_t>(1, info.shape.back());
}

Status read_piece(const TensorIndex &index, const std::string &tensor, const TensorInfo &info,
                  uint64_t at, std::span<uint8_t> bytes) noexcept {
  const Status status =
      index.files()[info.file].reader->read_at(info.offset + at, bytes.data(), bytes.size());
  if (status.is_ok()) return status;
  return make_status(status.code(), "tensor %s: %s", tensor.c_str(), status.message());
}

// Rounds to BF16; kNonFinite for a weight that becomes infinite.
Status round_rows(const std::string &tensor, const ElementRange &range,
                  std::span<const float> weights, uint8_t *destination) noexcept {
  for (size_t i = 0; i < weights.size(); ++i) {
    const uint16_t half = float_to_bf16(weights[i]);
    std::memcpy(destination + 2 * i, &half, sizeof half);
  }
  return check_stored(tensor, TensorType::kBF16, range, {destination, weights.size() * 2});
}

}  // namespace

PlainWriter::PlainWriter(const TensorIndex &index, ThreadPool &threads)
    : index_(index), threads_(threads), workers_(threads.n_threads()) {}

void PlainWriter::copy(const std::string &tensor, ByteSink sink) {
  const TensorInfo &info = *index_.find(tensor);
  const uint64_t n_pieces = divide_up(info.bytes, kPieceBytes);
  const size_t n_slice = std::min<size_t>(n_pieces, slice_items(kPieceBytes, threads_.n_threads()));
  bytes_.resize(std::max(bytes_.size(), n_slice * kPieceBytes));
  const auto piece_bytes = [&](size_t piece) {
    return std::min(kPieceBytes, info.bytes - piece * kPieceBytes);
  };
  const uint64_t element_bytes = std::max<uint64_t>(1, tensor_type_bytes(info.type));
  run_slices(
      threads_, n_pieces, n_slice,
      [&](size_t piece, size_t place, uint32_t) {
        const uint64_t at = piece * kPieceBytes;
        const std::span<uint8_t> bytes(bytes_.data() + place * kPieceBytes, piece_bytes(piece));
        const Status status = read_piece(index_, tensor, info, at, bytes);
        if (!status.is_ok()) return status;
        return check_stored(tensor, info.type, {at / element_bytes, last_extent(info)}, bytes);
      },
      [&](size_t first, size_t n) {
        sink({bytes_.data(), (n - 1) * kPieceBytes + piece_bytes(first + n - 1)});
      });
}

void PlainWriter::round(const WeightSource &source, ByteSink sink) {
  const uint64_t block_weights = kRoundedRows * source.columns;
  for (Worker &worker : workers_) {
    worker.stored.reserve(source, kRoundedRows);
    worker.weights.resize(std::max<size_t>(worker.weights.size(), block_weights));
  }
  const uint64_t n_blocks = divide_up(source.rows, kRoundedRows);
  const size_t n_slice =
      std::min<size_t>(n_blocks, slice_items(2 * block_weights, threads_.n_threads()));
  bytes_.resize(std::max(bytes_.size(), n_slice * 2 * block_weights));
  const auto block_rows = [&](size_t block) {
    return std::min(kRoundedRows, source.rows - block * kRoundedRows);
  };
  run_slices(
      threads_, n_blocks, n_slice,
      [&](size_t block, size_t place, uint32_t number) {
        Worker &worker = workers_[number];
        const uint64_t first = block * kRoundedRows;
        const Status status = worker.stored.read(index_, source, first, block_rows(block));
        if (!status.is_ok()) return status;
        worker.stored.widen(worker.weights.data());
        return round_rows(source.name, {first * source.columns, source.columns},
                          {worker.weights.data(), block_rows(block) * source.columns},
                          bytes_.data() + place * 2 * block_weights);
      },
      [&](size_t first, size_t n) {
        const uint64_t n_rows = (n - 1) * kRoundedRows + block_rows(first + n - 1);
        sink({bytes_.data(), n_rows * source.columns * 2});
      });
}

}  // namespace colibri

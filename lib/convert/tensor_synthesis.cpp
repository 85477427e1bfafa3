// SPDX-License-Identifier: Apache-2.0
//
// Blocks are large enough to make a task worth its cost and small enough to share a slice evenly.

#include "lib/convert/tensor_synthesis.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "lib/base/checked_math.h"
#include "lib/base/number_formats.h"
#include "lib/base/random_stream.h"
#include "lib/convert/random_codes.h"
#include "lib/snapshot/hash.h"

namespace colibri {
namespace {

constexpr uint64_t kRowsPerBlock = 64;

std::span<const uint8_t> bytes_of(const std::vector<float> &values) {
  return {reinterpret_cast<const uint8_t *>(values.data()), values.size() * sizeof(float)};
}

// A random row of length kLogitDeviation.
void make_direction(RandomStream *random, std::vector<float> *row) {
  double square = 0;
  for (float &element : *row) {
    element = static_cast<float>(random->next_normal());
    square += static_cast<double>(element) * element;
  }
  const double factor = kLogitDeviation / std::sqrt(square);
  for (float &element : *row) element = static_cast<float>(factor * element);
}

}  // namespace

TensorSynthesis::TensorSynthesis(const ModelConfig &config, const RoutingDesign &design,
                                 uint64_t seed, ThreadPool &threads)
    : design_(design),
      seed_(seed),
      threads_(threads),
      vocabulary_(config.vocabulary_size, config.width, design.correlation, seed) {}

void TensorSynthesis::stream(const OutputTensor &tensor, const SynthesisStep &step, ByteSink sink) {
  switch (step.kind) {
    case SynthesisStep::Kind::kCodes:
      return stream_codes(tensor, step, sink);
    case SynthesisStep::Kind::kHead:
      return stream_head(tensor, sink);
    case SynthesisStep::Kind::kEmbedding:
      return stream_embedding(tensor, sink);
    case SynthesisStep::Kind::kDirections:
      return stream_directions(tensor, sink);
    case SynthesisStep::Kind::kBias:
      return sink(bytes_of(order_biases(tensor)));
    case SynthesisStep::Kind::kConstant:
      return sink(bytes_of(std::vector<float>(tensor.bytes / sizeof(float), step.values[0])));
  }
}

// Hands on `bytes` bytes, made in blocks; make() gets the place of a block's first byte.
void TensorSynthesis::stream_blocks(uint64_t bytes, uint64_t block_bytes, MakeBlock make,
                                    ByteSink sink) {
  const size_t n_blocks = divide_up(bytes, block_bytes);
  const size_t n_slice = std::min(n_blocks, slice_items(block_bytes, threads_.n_threads()));
  slice_.resize(n_slice * block_bytes);
  run_slices(
      threads_, n_blocks, n_slice,
      [&](size_t block, size_t place, uint32_t) {
        const uint64_t first = block * block_bytes;
        make(first, {&slice_[place * block_bytes], std::min(block_bytes, bytes - first)});
        return Status();
      },
      [&](size_t block, size_t n) {
        sink({slice_.data(), std::min(n * block_bytes, bytes - block * block_bytes)});
      });
}

void TensorSynthesis::stream_codes(const OutputTensor &tensor, const SynthesisStep &step,
                                   ByteSink sink) {
  const PackedConstants constants(*tensor.layout, step.values);
  const uint64_t key = key_of(tensor);
  stream_blocks(
      tensor.bytes, kCodeBlockBytes,
      [&](uint64_t first, std::span<uint8_t> bytes) {
        make_codes(constants, key, first / kCodeBlockBytes, bytes);
      },
      sink);
}

void TensorSynthesis::stream_head(const OutputTensor &tensor, ByteSink sink) {
  const WeightLayout &layout = tensor.layout->parts[0];
  const uint64_t panel_bytes = layout.panel_bytes();
  const uint64_t codes_bytes = layout.n_panels() * panel_bytes;
  stream_blocks(
      codes_bytes, panel_bytes,
      [&](uint64_t first, std::span<uint8_t> panel) {
        vocabulary_.write_head_panel(first / panel_bytes, panel.data());
      },
      sink);
  const float scale = vocabulary_.head_scale();
  const PackedConstants constants(*tensor.layout, {&scale, 1});
  stream_blocks(
      tensor.bytes - codes_bytes, kCodeBlockBytes,
      [&](uint64_t first, std::span<uint8_t> bytes) {
        constants.apply(codes_bytes + first, bytes);
      },
      sink);
}

void TensorSynthesis::stream_embedding(const OutputTensor &tensor, ByteSink sink) {
  const uint64_t row_bytes = tensor.bytes / vocabulary_.size();
  stream_blocks(
      tensor.bytes, kRowsPerBlock * row_bytes,
      [&](uint64_t first, std::span<uint8_t> rows) {
        for (uint64_t at = 0; at < rows.size(); at += row_bytes) {
          vocabulary_.write_embedding(static_cast<uint32_t>((first + at) / row_bytes), &rows[at]);
        }
      },
      sink);
}

void TensorSynthesis::stream_directions(const OutputTensor &tensor, ByteSink sink) {
  RandomStream random{key_of(tensor)};
  std::vector<float> row(tensor.shape[1]);
  std::vector<uint16_t> halves(row.size());
  for (uint64_t r = 0; r < tensor.shape[0]; ++r) {
    make_direction(&random, &row);
    if (tensor.type_name == "F32") {
      sink(bytes_of(row));
      continue;
    }
    std::transform(row.begin(), row.end(), halves.begin(), float_to_bf16);
    sink({reinterpret_cast<const uint8_t *>(halves.data()), halves.size() * sizeof(uint16_t)});
  }
}

// Which expert of the layer is how popular is drawn anew in every layer.
std::vector<float> TensorSynthesis::order_biases(const OutputTensor &tensor) const {
  RandomStream random{key_of(tensor)};
  std::vector<float> biases = design_.biases;
  for (size_t i = biases.size(); i > 1; --i) {
    std::swap(biases[i - 1], biases[random.next_below(static_cast<uint32_t>(i))]);
  }
  return biases;
}

uint64_t TensorSynthesis::key_of(const OutputTensor &tensor) const noexcept {
  return hash_bytes(tensor.name, seed_);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Packed matrices are multiples of 64 bytes, so each of them begins aligned without padding
// between.

#include "lib/residency/expert_layout.h"

#include <algorithm>
#include <cinttypes>

#include "lib/base/checked_math.h"
#include "lib/residency/weight_packing.h"

namespace colibri {

static_assert(kPageBytes == kPackedAlignment, "a packed expert's tensor is as long as its slot");

namespace {

bool has_biases(const ExpertSource &source) noexcept {
  return source.gate_bias.is_present();
}

// Gate and up in one piece of the file: alternating, or halves of a tensor.
bool share_a_span(const WeightSource &gate, const WeightSource &up) noexcept {
  return gate.format != StoredFormat::kPacked && gate.format == up.format &&
         gate.values == up.values && gate.scales == up.scales;
}

// Reads the matrices from where they stand on their own.
Status load_matrices(const TensorIndex &index, const ExpertSource &source,
                     std::span<uint8_t> staging, uint8_t *destination,
                     uint64_t *read_bytes) noexcept {
  Status status = load_packed(index, source.gate, staging, destination, read_bytes);
  if (!status.is_ok()) return status;
  destination += packed_layout(source.gate).total_bytes();
  if (share_a_span(source.gate, source.up)) {
    pack_stored(source.up, staging, destination);  // the staging is still that of gate
  } else {
    status = load_packed(index, source.up, staging, destination, read_bytes);
  }
  if (!status.is_ok()) return status;
  destination += packed_layout(source.up).total_bytes();
  return load_packed(index, source.down, staging, destination, read_bytes);
}

Status load_biases(const TensorIndex &index, const ExpertSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept {
  for (const WeightSource *bias : {&source.gate_bias, &source.up_bias, &source.down_bias}) {
    const Status status = load_vector(index, *bias, staging, destination, read_bytes);
    if (!status.is_ok()) return status;
    destination += vector_layout(*bias).total_bytes();
  }
  return Status();
}

uint64_t matrix_bytes(const ExpertSource &source) noexcept {
  return packed_layout(source.gate).total_bytes() + packed_layout(source.up).total_bytes() +
         packed_layout(source.down).total_bytes();
}

}  // namespace

uint64_t packed_bytes(const ExpertSource &source) noexcept {
  uint64_t bytes = matrix_bytes(source);
  if (has_biases(source)) {
    bytes += vector_layout(source.gate_bias).total_bytes() +
             vector_layout(source.up_bias).total_bytes() +
             vector_layout(source.down_bias).total_bytes();
  }
  return divide_up(bytes, kPageBytes) * kPageBytes;
}

ExpertView view_expert(const ExpertSource &source, const uint8_t *slot) noexcept {
  ExpertView view;
  view.gate = PackedMatrix{packed_layout(source.gate), slot};
  view.up = PackedMatrix{packed_layout(source.up), slot + view.gate.layout.total_bytes()};
  view.down =
      PackedMatrix{packed_layout(source.down), view.up.values + view.up.layout.total_bytes()};
  if (!has_biases(source)) return view;
  const uint8_t *bias = slot + matrix_bytes(source);
  view.gate_bias = reinterpret_cast<const float *>(bias);
  bias += vector_layout(source.gate_bias).total_bytes();
  view.up_bias = reinterpret_cast<const float *>(bias);
  bias += vector_layout(source.up_bias).total_bytes();
  view.down_bias = reinterpret_cast<const float *>(bias);
  return view;
}

uint64_t staging_bytes(const ExpertSource &source) noexcept {
  uint64_t bytes = 0;
  for (const WeightSource *part : {&source.gate, &source.up, &source.down, &source.gate_bias,
                                   &source.up_bias, &source.down_bias}) {
    bytes = std::max(bytes, staging_bytes(*part));
  }
  return bytes;
}

Status load_expert(const TensorIndex &index, const ExpertSource &source, std::span<uint8_t> staging,
                   std::span<uint8_t> slot, uint64_t *read_bytes) noexcept {
  const uint64_t needed = packed_bytes(source);
  const bool is_slab = source.slab.bytes != 0;
  if (needed > slot.size() || (is_slab && source.slab.bytes != needed)) {
    return make_status(StatusCode::kInternal,
                       "expert of %s: %" PRIu64 " bytes (stored %" PRIu64 ") for a slot of %zu",
                       source.gate.name.c_str(), needed, source.slab.bytes, slot.size());
  }
  if (is_slab) return read_packed(index, source.gate.name, source.slab, slot.data(), read_bytes);
  const Status status = load_matrices(index, source, staging, slot.data(), read_bytes);
  if (!status.is_ok() || !has_biases(source)) return status;
  return load_biases(index, source, staging, slot.data() + matrix_bytes(source), read_bytes);
}

}  // namespace colibri

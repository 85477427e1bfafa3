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

uint64_t packed_bytes(const ExpertSource &source) noexcept {
  const uint64_t bytes = packed_layout(source.gate).total_bytes() +
                         packed_layout(source.up).total_bytes() +
                         packed_layout(source.down).total_bytes();
  return divide_up(bytes, kPageBytes) * kPageBytes;
}

ExpertView view_expert(const ExpertSource &source, const uint8_t *slot) noexcept {
  ExpertView view;
  view.gate = PackedMatrix{packed_layout(source.gate), slot};
  view.up = PackedMatrix{packed_layout(source.up), slot + view.gate.layout.total_bytes()};
  view.down =
      PackedMatrix{packed_layout(source.down), view.up.values + view.up.layout.total_bytes()};
  return view;
}

uint64_t staging_bytes(const ExpertSource &source) noexcept {
  return std::max(
      {staging_bytes(source.gate), staging_bytes(source.up), staging_bytes(source.down)});
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
  uint8_t *destination = slot.data();
  for (const WeightSource *matrix : {&source.gate, &source.up, &source.down}) {
    const Status status = load_packed(index, *matrix, staging, destination, read_bytes);
    if (!status.is_ok()) return status;
    destination += packed_layout(*matrix).total_bytes();
  }
  return Status();
}

}  // namespace colibri

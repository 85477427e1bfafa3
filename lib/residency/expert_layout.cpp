// SPDX-License-Identifier: Apache-2.0
//
// Packed matrices are multiples of 64 bytes, so each of them begins aligned without padding
// between.

#include "lib/residency/expert_layout.h"

#include <algorithm>

#include "lib/base/checked_math.h"
#include "lib/residency/weight_packing.h"

namespace colibri {

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

}  // namespace colibri

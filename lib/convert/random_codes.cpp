// SPDX-License-Identifier: Apache-2.0
//
// Codes are bytes of the generator as they come, since every byte is two INT4 codes or one INT8
// code. Scales and padding are a twentieth of a tensor, so they are simply written over.

#include "lib/convert/random_codes.h"

#include <algorithm>
#include <cstring>

#include "lib/base/number_formats.h"
#include "lib/base/random_stream.h"
#include "lib/base/status.h"

namespace colibri {
namespace {

void require_whole(const WeightLayout &part) {
  const uint32_t line_depths = part.format == WeightFormat::kInt4 ? 8 : 4;
  if (part.is_integer() && part.scale_type == ScaleType::kBF16 &&
      part.columns % kPanelColumns == 0 && part.depth % line_depths == 0) {
    return;
  }
  throw_error(StatusCode::kInternal, "random codes cannot fill a matrix [%u, %u] in %s",
              part.columns, part.depth, weight_format_name(part.format));
}

}  // namespace

PackedConstants::PackedConstants(const PackedLayout &layout, std::span<const float> scales) {
  uint64_t end = 0;
  for (uint32_t head = 0; head < layout.n_heads; ++head) {
    for (size_t p = 0; p < layout.parts.size(); ++p) {
      const WeightLayout &part = layout.parts[p];
      require_whole(part);
      const uint64_t begin = head * layout.head_bytes() + layout.part_offset(p);
      const uint64_t scales_begin = begin + part.scale_offset();
      const uint64_t scales_end = scales_begin + part.n_panels() * part.scale_panel_bytes();
      end = begin + part.total_bytes();
      ranges_.push_back({scales_begin, scales_end, float_to_bf16(scales[p])});
      ranges_.push_back({scales_end, end, 0});
    }
  }
  ranges_.push_back({end, layout.tensor_bytes(), 0});
}

void PackedConstants::apply(uint64_t first, std::span<uint8_t> bytes) const noexcept {
  const uint64_t last = first + bytes.size();
  auto range = std::upper_bound(ranges_.begin(), ranges_.end(), first,
                                [](uint64_t at, const Range &r) { return at < r.end; });
  for (; range != ranges_.end() && range->begin < last; ++range) {
    const uint64_t begin = std::max(first, range->begin);
    const uint64_t end = std::min(last, range->end);
    for (uint64_t at = begin; at < end; at += sizeof range->half) {
      std::memcpy(&bytes[at - first], &range->half, sizeof range->half);
    }
  }
}

void make_codes(const PackedConstants &constants, uint64_t key, uint64_t block,
                std::span<uint8_t> bytes) noexcept {
  RandomStream random{key, block};
  random.fill(bytes.data(), bytes.size());
  constants.apply(block * kCodeBlockBytes, bytes);
}

float code_deviation(WeightFormat format) noexcept {
  // of n equally likely consecutive integers: sqrt((n^2 - 1) / 12)
  return format == WeightFormat::kInt4 ? 4.6097722f : 73.900383f;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Packed tensors of random weights: uniform codes, one scale for all groups of a part. Made in
// blocks of any order; two tensors with different keys have nothing in common.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/snapshot/packed_manifest.h"

namespace colibri {

// Where the scales and the padding of a packed tensor lie, and what they are.
class PackedConstants {
 public:
  // One scale per part; it is rounded to BF16, the scale type of all parts. All parts consist of
  // whole panels and lines (else Error(kInternal)): there is no padding between codes.
  PackedConstants(const PackedLayout &layout, std::span<const float> scales);

  // Overwrites what of bytes [first, first + bytes.size()) of the tensor is no code. `first` is a
  // multiple of 64.
  void apply(uint64_t first, std::span<uint8_t> bytes) const noexcept;

 private:
  struct Range {
    uint64_t begin = 0, end = 0;  // in the tensor
    uint16_t half = 0;            // what it is filled with
  };
  std::vector<Range> ranges_;  // ascending
};

// Bytes of a block of random codes: a stream of its own.
constexpr uint64_t kCodeBlockBytes = 256u << 10;

// Block number `block` of the tensor with this key, at most kCodeBlockBytes, a multiple of 8.
void make_codes(const PackedConstants &constants, uint64_t key, uint64_t block,
                std::span<uint8_t> bytes) noexcept;

// Standard deviation of uniform codes of a format: INT4 -8..7, INT8 -128..127.
float code_deviation(WeightFormat format) noexcept;

}  // namespace colibri

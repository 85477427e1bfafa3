// SPDX-License-Identifier: Apache-2.0
//
// From a tensor on disk to a packed matrix in memory: the bridge between snapshot formats and
// backend layouts.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "lib/base/status.h"
#include "lib/base/weight_layout.h"
#include "lib/snapshot/weight_source.h"

namespace colibri {

// The packed layout of a stored matrix. Formats map one to one (F32, F16, BF16, FP8, INT8, INT4);
// nothing is re-quantised. kPacked: the layout of its bytes.
WeightLayout packed_layout(const WeightSource &source) noexcept;

// Bytes of staging that load_packed() needs for this matrix: values and widened scales as stored. 0
// for kPacked, which is read to where it belongs.
uint64_t staging_bytes(const WeightSource &source) noexcept;

// Reads the stored bytes into `staging` and packs them at `destination` (64-byte aligned,
// packed_layout(source).total_bytes()). On failure (kIo) the destination is undefined. Allocates
// nothing; may run in several threads with separate staging. `read_bytes`, if not null, is
// increased by the bytes read.
Status load_packed(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept;

// Reads packed bytes as they are with one positional read; on failure the message names `tensor`.
Status read_packed(const TensorIndex &index, const std::string &tensor, const TensorSpan &span,
                   uint8_t *destination, uint64_t *read_bytes) noexcept;

}  // namespace colibri

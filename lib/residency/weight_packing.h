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

// The packed layout of a stored matrix. Formats map one to one (F32, F16, BF16, FP8, INT8, INT4,
// MXFP4); nothing is re-quantised. kPacked: the layout of its bytes.
WeightLayout packed_layout(const WeightSource &source) noexcept;

// Bytes of staging that load_packed() needs for this matrix: values and widened scales as stored
// (exponent bytes of MXFP4 stay bytes); of a fused part, those of all rows that its span holds. 0
// for kPacked, which is read to where it belongs.
uint64_t staging_bytes(const WeightSource &source) noexcept;

// load_packed() in two steps, so that matrices of one span (gate and up that alternate, or halves
// of one tensor) are read once. read_stored() fills the staging of `source`; pack_stored() packs
// from a staging that read_stored() filled for a source of the same spans. Both allocate nothing.
Status read_stored(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint64_t *read_bytes) noexcept;
void pack_stored(const WeightSource &source, std::span<const uint8_t> staging,
                 uint8_t *destination) noexcept;
// What such a staging holds of the source, for who packs panel by panel.
PackingSource stored_matrix(const WeightSource &source, std::span<const uint8_t> staging) noexcept;

// Reads the stored bytes into `staging` and packs them at `destination` (64-byte aligned,
// packed_layout(source).total_bytes()). On failure (kIo) the destination is undefined. Allocates
// nothing; may run in several threads with separate staging. `read_bytes`, if not null, is
// increased by the bytes read.
Status load_packed(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept;

// Bytes of a vector as biases of experts are kept: a plain F32 matrix of depth 1, so that its
// numbers stand one after another.
WeightLayout vector_layout(const WeightSource &source) noexcept;
// As read_stored() and pack_stored() of such a vector, stored as F32, F16 or BF16 and widened.
// kPacked: read as it is.
Status load_vector(const TensorIndex &index, const WeightSource &source, std::span<uint8_t> staging,
                   uint8_t *destination, uint64_t *read_bytes) noexcept;

// Reads packed bytes as they are with one positional read; on failure the message names `tensor`.
Status read_packed(const TensorIndex &index, const std::string &tensor, const TensorSpan &span,
                   uint8_t *destination, uint64_t *read_bytes) noexcept;

}  // namespace colibri

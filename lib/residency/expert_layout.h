// SPDX-License-Identifier: Apache-2.0
//
// Where the three matrices of an expert stand in its slot: gate, up, down one after another, each
// packed with its scales behind it, then its biases if it has any, each as a plain F32 matrix of
// depth 1, so that an expert is one piece of memory that cannot be torn apart. A packed expert
// stands in its tensor in the same way.

#pragma once

#include <cstdint>
#include <span>

#include "lib/backend/op_args.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

// What an expert's memory is counted in: residency comes in pages.
constexpr uint64_t kPageBytes = 4096;

// Bytes of the packed expert in whole pages, which is what it costs of a budget.
uint64_t packed_bytes(const ExpertSource &source) noexcept;

// The expert's matrices in a slot that begins at `slot` (64-byte aligned).
ExpertView view_expert(const ExpertSource &source, const uint8_t *slot) noexcept;

// Staging that reading this expert needs: matrices are read one after another. 0 for packed ones.
uint64_t staging_bytes(const ExpertSource &source) noexcept;

// Reads an expert to where view_expert() looks for it. `slot` has packed_bytes(source) at least. A
// packed expert is its slot, read at once; matrices on their own are packed one after another, gate
// and up of one span from one reading. On failure (kIo) the slot is undefined.
Status load_expert(const TensorIndex &index, const ExpertSource &source, std::span<uint8_t> staging,
                   std::span<uint8_t> slot, uint64_t *read_bytes) noexcept;

}  // namespace colibri

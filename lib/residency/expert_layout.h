// SPDX-License-Identifier: Apache-2.0
//
// Where the three matrices of an expert stand in its slot: gate, up, down one after another, each
// packed with its scales behind it, so that an expert is one piece of memory that cannot be torn
// apart.

#pragma once

#include <cstdint>

#include "lib/backend/op_args.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

// What an expert's memory is counted in: residency comes in pages.
constexpr uint64_t kPageBytes = 4096;

// Bytes of the packed expert in whole pages, which is what it costs of a budget.
uint64_t packed_bytes(const ExpertSource &source) noexcept;

// The expert's matrices in a slot that begins at `slot` (64-byte aligned).
ExpertView view_expert(const ExpertSource &source, const uint8_t *slot) noexcept;

// Staging that reading this expert needs: matrices are read one after another.
uint64_t staging_bytes(const ExpertSource &source) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The way in which a large result is made: slices of it in parallel, handed on in order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/function_ref.h"
#include "lib/base/parallel.h"
#include "lib/base/status.h"

namespace colibri {

// Takes the bytes of a result in order.
using ByteSink = FunctionRef<void(std::span<const uint8_t>)>;

// About so many bytes of a result are made before they are handed on.
constexpr uint64_t kSliceBytes = 8ull << 20;

// Items of a slice, each `item_bytes` (not 0) of the result: as many as kSliceBytes holds, and
// enough to give every thread several.
size_t slice_items(uint64_t item_bytes, uint32_t n_threads) noexcept;

// Runs make(item, place, worker) for all items below n_items, in slices of `n_slice` consecutive
// ones: the items of a slice in parallel, `place` counting from 0 in it, `worker` as in
// ThreadPool::parallel_for. After each slice emit(first item, items), on this thread. Throws the
// failure of the first item that failed, and what emit throws.
void run_slices(ThreadPool &threads, size_t n_items, size_t n_slice,
                FunctionRef<Status(size_t item, size_t place, uint32_t worker)> make,
                FunctionRef<void(size_t first, size_t n)> emit);

}  // namespace colibri

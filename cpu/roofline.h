// SPDX-License-Identifier: Apache-2.0
//
// What bounds a matrix kernel on this machine: how fast memory is read, and how many multiply-adds
// its instruction does in registers.

#pragma once

#include <cstdint>

#include "cpu/kernels.h"
#include "cpu/thread_team.h"
#include "lib/base/weight_layout.h"

namespace colibri::cpu {

// The peak that products with matrices of this layout are held against: integer activations for
// INT4 and INT8, float ones for the others.
const PeakKernel &peak_kernel(const KernelSet &kernels, const WeightLayout &layout) noexcept;

// Multiply-adds per second of all threads, measured once.
double measure_peak(const ThreadTeam &team, const PeakKernel &peak) noexcept;

// Bytes per second: each thread reads its own contiguous part, once in every way of the set; the
// fastest way counts. `data` is 64-byte aligned; parts are whole units of kReadUnitBytes.
double measure_read_rate(const ThreadTeam &team, const KernelSet &kernels, const uint8_t *data,
                         uint64_t n_bytes) noexcept;

// Plain read bandwidth of memory in 1e9 bytes per second, with the fastest kernel set of this
// machine. Throws Error(kMemory).
double measure_read_bandwidth(ThreadPool &threads, uint64_t memory_bytes);

// Throws Error(kMemory) if n_bytes are more than this process can take.
void require_memory(uint64_t n_bytes);

}  // namespace colibri::cpu

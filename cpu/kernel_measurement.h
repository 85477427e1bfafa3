// SPDX-License-Identifier: Apache-2.0
//
// Measures one matrix kernel as an expert layer uses it: many matrices in turn, each read once for
// all rows, columns shared among the threads.

#pragma once

#include <cstdint>
#include <span>

#include "lib/backend/measurement.h"
#include "lib/base/parallel.h"

namespace colibri::cpu {

// Fills one element of `figures` for each of `rows` (numbers of rows, at least 1; as many elements,
// at least 1). All figures are taken in turn, run after run, so that a machine that grows slower
// does not favour one of them. Throws Error: kArgument and kUnsupported for the kernel set,
// kMemory.
MachineFigures measure_kernels(ThreadPool &threads, const MeasurementOptions &options,
                               std::span<const uint32_t> rows, std::span<KernelFigures> figures);

}  // namespace colibri::cpu

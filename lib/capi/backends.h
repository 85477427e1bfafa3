// SPDX-License-Identifier: Apache-2.0
//
// Makes the backend of a model and measures devices. backends.cpp is the only file of lib/ that
// knows which devices exist.

#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "lib/backend/backend.h"
#include "lib/backend/measurement.h"
#include "lib/base/parallel.h"

namespace colibri {

// `kernel_set`: a name, or empty for the fastest that this machine runs. `threads` must outlive the
// backend. Throws Error: kArgument for an unknown name, kUnsupported for one that this CPU cannot
// run.
std::unique_ptr<Backend> make_backend(ThreadPool &threads, std::string_view kernel_set);

// As measure_kernels() of cpu/kernel_measurement.h.
MachineFigures measure_kernels(ThreadPool &threads, const MeasurementOptions &options,
                               std::span<const uint32_t> rows, std::span<KernelFigures> figures);
// As measure_read_bandwidth() of cpu/roofline.h.
double measure_read_bandwidth(ThreadPool &threads, uint64_t memory_bytes);

}  // namespace colibri

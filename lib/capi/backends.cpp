// SPDX-License-Identifier: Apache-2.0
//
// One device so far: the CPU.

#include "lib/capi/backends.h"

#include "cpu/cpu_backend.h"
#include "cpu/kernel_measurement.h"
#include "cpu/roofline.h"

namespace colibri {

std::unique_ptr<Backend> make_backend(ThreadPool &threads, std::string_view kernel_set) {
  return cpu::make_cpu_backend(threads, kernel_set);
}

MachineFigures measure_kernels(ThreadPool &threads, const MeasurementOptions &options,
                               std::span<const uint32_t> rows, std::span<KernelFigures> figures) {
  return cpu::measure_kernels(threads, options, rows, figures);
}

double measure_read_bandwidth(ThreadPool &threads, uint64_t memory_bytes) {
  return cpu::measure_read_bandwidth(threads, memory_bytes);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// What is measured of a device and its matrix kernels. include/colibri/measure.h has the same for
// hosts.

#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/weight_layout.h"

namespace colibri {

struct MeasurementOptions {
  std::string_view kernel_set;  // empty: the fastest that this machine runs
  WeightLayout layout;          // of one matrix
  uint32_t n_runs = 0;          // of each figure, at least 1; the best counts
  uint64_t memory_bytes = 0;    // of matrices that are read in turn, together
};

// Rates in 1e9 per second. Texts live as long as the program.
struct MachineFigures {
  uint32_t n_threads = 0;  // that worked at the same time
  double read_gbps = 0;
  double peak_gmacs = 0;
  double cache_gmacs = 0;
  const char *kernel_set = nullptr;
  const char *instruction = nullptr;
};

struct KernelFigures {
  uint32_t n_rows = 0;
  double seconds = 0;
  double gbps = 0;
  double gmacs = 0;
  double relative_time = 0;
  double roof_share = 0;
};

}  // namespace colibri

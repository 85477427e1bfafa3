// SPDX-License-Identifier: Apache-2.0
//
// One ordered table of kernel sets, fastest first. First match wins; a name forces a row.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cpu/kernels.h"

namespace colibri::cpu {

struct KernelRow {
  const char *name;          // "avx512", "avx2", "ref"; several rows may share one, the best first
  uint32_t needed_features;  // CpuFeature bits
  const KernelSet *set;
};

std::span<const KernelRow> kernel_rows() noexcept;

// The first row that this CPU can run; `name`, if not empty: the first of that name. Throws Error:
// kArgument for an unknown name (lists the known ones), kUnsupported if this CPU lacks a feature
// (names it).
const KernelRow &choose_kernel_row(std::string_view name);

}  // namespace colibri::cpu

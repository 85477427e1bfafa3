// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend: KernelSet times ThreadPool. Splits every operation by output elements; no split
// depends on a reduction axis, so results do not depend on the number of threads.

#pragma once

#include <memory>
#include <string_view>

#include "lib/backend/backend.h"
#include "lib/base/parallel.h"

namespace colibri::cpu {

// `kernel_set`: a name of cpu/kernel_registry.h or empty for the best. `threads` must outlive the
// backend. Throws Error as choose_kernel_row does.
std::unique_ptr<Backend> make_cpu_backend(ThreadPool &threads, std::string_view kernel_set);

}  // namespace colibri::cpu

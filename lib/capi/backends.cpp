// SPDX-License-Identifier: Apache-2.0
//
// One device so far: the CPU.

#include "lib/capi/backends.h"

#include "cpu/cpu_backend.h"

namespace colibri {

std::unique_ptr<Backend> make_backend(ThreadPool &threads, std::string_view kernel_set) {
  return cpu::make_cpu_backend(threads, kernel_set);
}

}  // namespace colibri

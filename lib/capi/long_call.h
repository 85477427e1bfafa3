// SPDX-License-Identifier: Apache-2.0
//
// What the calls of convert.h that take their time have in common: threads and progress.

#pragma once

#include <cstdint>
#include <functional>

#include "colibri/model.h"
#include "lib/base/parallel.h"
#include "lib/base/system.h"
#include "lib/capi/option_checks.h"

namespace colibri {

// The host's progress function as the library calls it: false stops. Empty for NULL.
inline std::function<bool(uint64_t, uint64_t)> make_progress(colibri_progress_fn progress,
                                                             void *user) {
  if (progress == nullptr) return nullptr;
  return [progress, user](uint64_t done_bytes, uint64_t total_bytes) {
    return progress(user, done_bytes, total_bytes) == 0;
  };
}

// 0: physical cores. Throws Error(kArgument).
inline uint32_t read_n_threads(uint32_t n_threads) {
  const uint32_t given = in_range("n_threads", n_threads, 0, ThreadPool::kMaxThreads);
  return given != 0 ? given : probe_core_count("");
}

}  // namespace colibri

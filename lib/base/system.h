// SPDX-License-Identifier: Apache-2.0
//
// What this process may use of the machine: memory under all limits, processor cores. Parsing is
// split from reading so that fixtures test it. The OS calls are in system_posix.cpp.

#pragma once

#include <cstdint>
#include <string>

namespace colibri {

// How much more anonymous memory this process can take, and what decided it.
struct MemoryLimit {
  uint64_t available_bytes;  // 0 also if every probe failed
  uint64_t total_bytes;      // of the machine or the tightest cgroup; 0 if every probe failed
  std::string decided_by;    // e.g. "cgroup /user.slice memory.max" or "MemAvailable"; never empty
};

// Least of: MemAvailable of the host; for every cgroup v1/v2 ancestor of this process, hard and
// soft limits minus that group's use (its reclaimable file cache does not count as use). A failed
// probe leaves the next one to decide; without /proc the kernel is asked (sysinfo). `root` is
// prefixed to /proc and /sys paths (fixtures), normally "". Throws only std::bad_alloc.
MemoryLimit probe_memory_limit(const std::string &root);

// Physical cores inside this thread's affinity mask, at most the cgroup CPU quota (rounded up), at
// least 1. Throws only std::bad_alloc.
uint32_t probe_core_count(const std::string &root);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// ThreadTeam: the threads of a pool, all at work at the same time, for measurements. A parallel_for
// gives tasks to whoever is free; here every thread gets exactly one, and the clock starts when all
// have theirs.

#pragma once

#include <cstdint>

#include "lib/base/function_ref.h"
#include "lib/base/parallel.h"

namespace colibri::cpu {

class ThreadTeam {
 public:
  // Finds out how many threads the machine gives at once. `threads` must outlive the team.
  explicit ThreadTeam(ThreadPool &threads) noexcept;

  // 1..n_threads of the pool.
  uint32_t size() const noexcept { return size_; }

  // Runs body(member) on size() threads at once, member in [0, size()); the seconds from the moment
  // when all had begun until the last was done. body must not throw. A thread that the machine does
  // not give for a second is not waited for; its part is then done by another one, later, within
  // the same time.
  double run(FunctionRef<void(uint32_t member)> body) const noexcept;

  // Repeats body(member), which returns what it has done, on every thread for at least `seconds`;
  // the sum of the results per second.
  double measure_rate(double seconds, FunctionRef<uint64_t(uint32_t member)> body) const noexcept;

 private:
  ThreadPool *threads_;
  uint32_t size_ = 1;
};

}  // namespace colibri::cpu

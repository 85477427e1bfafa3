// SPDX-License-Identifier: Apache-2.0
//
// TaskRunner: runs the tasks of one operation, in parallel if that pays. Small operations run in
// the calling thread: on two cores of a Sapphire Rapids server a product gains from a second thread
// above 80,000 (BF16) to 200,000 (INT4) multiply-adds. Either way the tasks run under
// ScopedFloatMode.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/base/float_mode.h"
#include "lib/base/parallel.h"

namespace colibri::cpu {

constexpr uint64_t kInlineWork = 100000;
constexpr uint64_t kTasksPerThread = 16;

class TaskRunner {
 public:
  explicit TaskRunner(ThreadPool &threads) noexcept : threads_(&threads) {}

  uint32_t n_threads() const noexcept { return threads_->n_threads(); }

  bool is_inline(uint64_t work) const noexcept { return n_threads() == 1 || work < kInlineWork; }

  // Work that one task should have at least: small enough that threads end together though they
  // run at different speeds, large enough that taking a task costs nothing beside it.
  uint64_t work_per_task(uint64_t work) const noexcept {
    if (is_inline(work)) return work;
    return std::max<uint64_t>(kInlineWork / 2,
                              work / (kTasksPerThread * static_cast<uint64_t>(n_threads())));
  }

  // body(task, worker) for every task; `work` is the multiply-adds of all tasks together, roughly.
  template <typename Body>
  void run(size_t n_tasks, uint64_t work, Body &&body) const noexcept {
    if (n_tasks > 1 && !is_inline(work)) {
      threads_->parallel_for(n_tasks, body);
      return;
    }
    const ScopedFloatMode float_mode;
    for (size_t task = 0; task < n_tasks; ++task) body(task, 0u);
  }

  // body(row, worker) for every row; rows are taken in runs.
  template <typename Body>
  void run_rows(size_t n_rows, uint64_t work_per_row, Body &&body) const noexcept {
    if (n_rows == 0) return;
    const uint64_t work = n_rows * work_per_row;
    const uint64_t wanted = work_per_task(work) / std::max<uint64_t>(work_per_row, 1);
    const size_t rows_per_task = static_cast<size_t>(std::clamp<uint64_t>(wanted, 1, n_rows));
    const size_t n_tasks = (n_rows + rows_per_task - 1) / rows_per_task;
    run(n_tasks, work, [&](size_t task, uint32_t worker) {
      const size_t first = task * rows_per_task;
      const size_t last = std::min(n_rows, first + rows_per_task);
      for (size_t row = first; row < last; ++row) body(row, worker);
    });
  }

 private:
  ThreadPool *threads_;
};

}  // namespace colibri::cpu

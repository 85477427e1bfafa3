// SPDX-License-Identifier: Apache-2.0
//
// ThreadPool: our own oneTBB arena and the one way in which the library computes in parallel. Work
// is split by output elements, so the number of threads and the order of tasks never change a
// result. parallel.cpp is the only includer of TBB.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/function_ref.h"

namespace colibri {

class ThreadPool {
 public:
  static constexpr uint32_t kMaxThreads = 1024;

  // n_threads counts the calling thread. Throws Error: kArgument if it is not in 1..kMaxThreads,
  // kMemory if threads cannot be made. The machine may give fewer threads than asked; then each
  // does more.
  explicit ThreadPool(uint32_t n_threads);
  // No call may be running. Waits for the threads that TBB has put to work for this pool; for those
  // that it was asked for and has not started, up to 100 ms. One that starts later owns what it
  // touches, finds that it must stop, and goes back to TBB at once. So a thread of TBB may still be
  // on its way out of the library when this returns, but touches nothing of the pool.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t n_threads() const noexcept;

  // What the threads did in calls that more than one of them could share. Only grows.
  struct Counters {
    uint64_t n_regions = 0;  // such calls
    uint64_t region_ns = 0;  // from the start of a call to its end
    uint64_t busy_ns = 0;    // inside tasks, all threads together; the rest of
                             // region_ns * n_threads() was spent waiting or arriving
  };
  Counters counters() const noexcept;

  // Runs body(task, worker) once for every task in [0, n_tasks) and returns when all are done.
  // worker is in [0, n_threads()); two calls with one worker number never overlap, so it may index
  // scratch memory. Tasks are taken one by one in ascending order by whichever worker is free. body
  // must not throw, and must not call parallel_for. Each task sees everything written before the
  // call. May be called by several threads at once; worker numbers are then per call. Allocates
  // nothing in steady use.
  void parallel_for(size_t n_tasks, FunctionRef<void(size_t task, uint32_t worker)> body) noexcept;

 private:
  struct Arena;
  std::unique_ptr<Arena> arena_;
};

}  // namespace colibri

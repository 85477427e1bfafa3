// SPDX-License-Identifier: Apache-2.0
//
// ThreadPool: our own oneTBB arena and the one way in which the library computes in parallel. Work
// is split by output elements, so the number of threads and the order of tasks never change a
// result. parallel.cpp is the only includer of TBB.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace colibri {

// Reference to a callable for the length of one call; never owns, never allocates.
template <typename Signature>
class FunctionRef;
template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  // Implicit by design, for lambdas at call sites; the constraint keeps copies out.
  // NOLINTBEGIN(bugprone-forwarding-reference-overload)
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>) FunctionRef(F &&f)
  noexcept
      : object_(const_cast<void *>(static_cast<const void *>(&f))),
        call_([](void *object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F> *>(object))(args...);
        }) {}
  // NOLINTEND(bugprone-forwarding-reference-overload)
  Result operator()(Args... args) const { return call_(object_, args...); }

 private:
  void *object_;
  Result (*call_)(void *, Args...);
};

class ThreadPool {
 public:
  static constexpr uint32_t kMaxThreads = 1024;

  // n_threads counts the calling thread. Throws Error: kArgument if it is not in 1..kMaxThreads,
  // kMemory if threads cannot be made. The machine may give fewer threads than asked; then each
  // does more.
  explicit ThreadPool(uint32_t n_threads);
  // Waits until no thread is inside the library on behalf of this pool. No call may be running.
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  uint32_t n_threads() const noexcept;

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

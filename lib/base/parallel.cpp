// SPDX-License-Identifier: Apache-2.0
//
// Calls are published in a small fixed table; threads of the arena, the runners, look there for
// work. A runner is one enqueued TBB task that serves call after call and goes back to TBB when
// nothing came for a while. A TBB task per call would cost more than a call may: a decode step
// makes about a hundred, a few microseconds apart, and TBB's threads fall asleep in between.
//
// The caller never waits for a runner that has not joined: it works off its tasks by itself, and
// late runners find the call closed. So a machine that gives fewer threads than asked is slower and
// nothing else.
//
// Every hand-over is an atomic operation in this file, so ThreadSanitizer needs to know nothing
// about TBB.

#include "lib/base/parallel.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/float_mode.h"
#include "lib/base/status.h"

namespace colibri {
namespace {

using Clock = std::chrono::steady_clock;

// How long a runner looks for work before it goes back to TBB: longer than the serial parts of a
// step.
constexpr auto kIdleTime = std::chrono::microseconds(200);
// How long a pool that goes away waits for a runner to be started by TBB.
constexpr auto kStartTime = std::chrono::milliseconds(100);
constexpr uint32_t kPausesBeforeYield = 256;
constexpr size_t kMaxCalls = 8;  // calls at once that get help; further ones run alone

uint64_t nanoseconds_since(Clock::time_point begin) noexcept {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count());
}

void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits a moment; gives the processor away once it has waited for some time.
void wait_moment(uint32_t &n_waits) noexcept {
  if (++n_waits < kPausesBeforeYield) {
    pause_processor();
  } else {
    std::this_thread::yield();
  }
}

// One running parallel_for. `state` says who may touch the rest: the plain fields are written by
// the caller while the entry is claimed and not open, and read by workers between joining and
// leaving.
struct alignas(64) Call {
  // Fields of state, 16 bits each: workers that have joined, workers that have left, most workers.
  static constexpr uint64_t kFieldMask = 0xFFFF;
  static constexpr int kLeftShift = 16;
  static constexpr int kMostShift = 32;
  static constexpr uint64_t kOpen = uint64_t{1} << 62;     // may be joined
  static constexpr uint64_t kClaimed = uint64_t{1} << 63;  // belongs to a caller

  std::atomic<uint64_t> state{0};
  const FunctionRef<void(size_t, uint32_t)> *body = nullptr;
  size_t n_tasks = 0;
  alignas(64) std::atomic<size_t> next_task{0};

  bool try_claim() noexcept {
    uint64_t expected = 0;
    return state.load(std::memory_order_relaxed) == 0 &&
           state.compare_exchange_strong(expected, kClaimed, std::memory_order_acquire);
  }

  // Publishes a claimed call, with the caller as worker 0.
  void open(size_t tasks, uint64_t most_workers,
            const FunctionRef<void(size_t, uint32_t)> &function) noexcept {
    body = &function;
    n_tasks = tasks;
    next_task.store(0, std::memory_order_relaxed);
    state.store(kClaimed | kOpen | most_workers << kMostShift | 1, std::memory_order_seq_cst);
  }

  bool is_open() const noexcept { return (state.load(std::memory_order_seq_cst) & kOpen) != 0; }

  // Joins as the next worker if the call is open and wants one more; the new worker's number, else
  // 0.
  uint32_t try_join() noexcept {
    uint64_t seen = state.load(std::memory_order_seq_cst);
    while ((seen & kOpen) != 0) {
      const uint64_t worker = seen & kFieldMask;
      if (worker >= (seen >> kMostShift & kFieldMask)) return 0;
      if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel)) {
        return static_cast<uint32_t>(worker);
      }
    }
    return 0;
  }

  // Takes tasks until none is left, then closes the call to others.
  void work(uint32_t worker) noexcept {
    for (;;) {
      const size_t task = next_task.fetch_add(1, std::memory_order_relaxed);
      if (task >= n_tasks) break;
      (*body)(task, worker);
    }
    state.fetch_and(~kOpen, std::memory_order_acq_rel);
  }

  // The last touch of a worker other than the caller: the caller sees what it wrote.
  void leave() noexcept { state.fetch_add(uint64_t{1} << kLeftShift, std::memory_order_acq_rel); }

  void wait_for_others() const noexcept {
    uint32_t n_waits = 0;
    for (;;) {
      const uint64_t seen = state.load(std::memory_order_acquire);
      if ((seen >> kLeftShift & kFieldMask) + 1 == (seen & kFieldMask)) return;
      wait_moment(n_waits);
    }
  }

  void release() noexcept { state.store(0, std::memory_order_release); }
};

// What callers and runners share. Runners own it together with the pool: one that TBB starts only
// after the pool is gone still finds it, and sees that it must stop.
struct SharedCalls {
  explicit SharedCalls(uint32_t most) noexcept : max_runners(most) {}

  const uint32_t max_runners;
  Call calls[kMaxCalls];
  std::atomic<bool> is_stopping{false};
  std::atomic<uint32_t> n_running{0};
  std::atomic<uint64_t> n_regions{0};
  std::atomic<uint64_t> region_ns{0};
  std::atomic<uint64_t> busy_ns{0};
  // Runners that can be counted on to look for calls: enqueued or running.
  alignas(64) std::atomic<uint32_t> n_runners{0};

  Call *claim_call() noexcept {
    for (Call &call : calls) {
      if (call.try_claim()) return &call;
    }
    return nullptr;
  }

  bool try_add_runner(uint32_t most) noexcept {
    uint32_t seen = n_runners.load(std::memory_order_seq_cst);
    while (seen < most) {
      if (n_runners.compare_exchange_weak(seen, seen + 1, std::memory_order_seq_cst)) return true;
    }
    return false;
  }

  // Works off tasks of a call and counts the time.
  void work_on(Call &call, uint32_t worker) noexcept {
    const Clock::time_point begin = Clock::now();
    call.work(worker);
    busy_ns.fetch_add(nanoseconds_since(begin), std::memory_order_relaxed);
  }

  // Works on every open call once; returns whether there was one.
  bool serve_calls() noexcept {
    bool has_worked = false;
    for (Call &call : calls) {
      const uint32_t worker = call.try_join();
      if (worker == 0) continue;
      work_on(call, worker);
      call.leave();
      has_worked = true;
    }
    return has_worked;
  }

  bool has_open_call() const noexcept {
    return std::any_of(std::begin(calls), std::end(calls),
                       [](const Call &call) { return call.is_open(); });
  }

  void serve_until_idle() noexcept {
    uint32_t n_waits = 0;
    Clock::time_point idle_since = Clock::now();
    while (!is_stopping.load(std::memory_order_seq_cst)) {
      if (serve_calls()) {
        n_waits = 0;
        idle_since = Clock::now();
      } else if ((n_waits % 64 == 63 || n_waits >= kPausesBeforeYield) &&
                 Clock::now() - idle_since > kIdleTime) {
        return;
      }
      wait_moment(n_waits);
    }
  }

  // The life of one runner. A caller may publish its call after the runner's last look and still
  // count on it, so the runner looks once more after it has signed off. Both sides order these two
  // steps by sequentially consistent operations: at least one sees the other.
  void run() noexcept {
    n_running.fetch_add(1, std::memory_order_seq_cst);
    const ScopedFloatMode float_mode;
    do {
      serve_until_idle();
      n_runners.fetch_sub(1, std::memory_order_seq_cst);
    } while (!is_stopping.load(std::memory_order_seq_cst) && has_open_call() &&
             try_add_runner(max_runners));
    n_running.fetch_sub(1, std::memory_order_seq_cst);
  }
};

// What is enqueued. TBB hands it to another thread by means that ThreadSanitizer does not see,
// since TBB is not built with it; `is_ready` repeats the hand-over in its sight.
class Runner {
 public:
  explicit Runner(std::shared_ptr<SharedCalls> calls) noexcept : calls_(std::move(calls)) {}
  Runner(Runner &&other) noexcept : calls_(std::move(other.calls_)) {
    is_ready_.store(true, std::memory_order_release);
  }
  void operator()() const noexcept {
    if (is_ready_.load(std::memory_order_acquire)) calls_->run();
  }

 private:
  std::shared_ptr<SharedCalls> calls_;
  std::atomic<bool> is_ready_{false};
};

// Keeps in sight what runners still own when their pool goes away: TBB holds such a runner in memory
// of its own, where a leak checker does not look, until it has ended. Freed when a later pool goes.
void keep_for_late_runners(const std::shared_ptr<SharedCalls> &calls) noexcept {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  try {
    static auto *const kept =
        new std::vector<std::shared_ptr<SharedCalls>>;  // outlives all threads
    kept->erase(std::remove_if(kept->begin(), kept->end(),
                               [](const auto &entry) { return entry.use_count() == 1; }),
                kept->end());
    if (calls.use_count() > 1) kept->push_back(calls);
  } catch (const std::bad_alloc &) {
    // Only out of sight.
  }
}

}  // namespace

struct ThreadPool::Arena {
  Arena(uint32_t n, uint32_t n_available)
      : n_threads(n),
        max_runners(n_available - 1),
        tasks(static_cast<int>(n_available), 1),
        shared(std::make_shared<SharedCalls>(max_runners)) {}

  const uint32_t n_threads;
  const uint32_t max_runners;
  tbb::task_arena tasks;
  const std::shared_ptr<SharedCalls> shared;

  // Makes sure that `n_wanted` runners exist. A runner whose enqueueing throws
  // stays counted, since TBB may or may not have kept it; the worst that comes of it is one helper
  // less.
  // Never inlined: tests/support/tsan.supp knows it by name.
  [[gnu::noinline]] void add_runners(uint32_t n_wanted) {
    while (shared->try_add_runner(n_wanted)) {
      tasks.enqueue(Runner(shared));
    }
  }
};

ThreadPool::ThreadPool(uint32_t n_threads) {
  if (n_threads == 0 || n_threads > kMaxThreads) {
    throw_error(StatusCode::kArgument, "number of threads is %u; must be 1..%u", n_threads,
                kMaxThreads);
  }
  // TBB has one set of threads for the whole process. It would not give more than it allows, but
  // print a warning on stderr.
  const size_t n_allowed =
      tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  const size_t n_available = std::clamp<size_t>(n_allowed, 1, n_threads);
  arena_ = std::make_unique<Arena>(n_threads, static_cast<uint32_t>(n_available));
  try {
    // Starts the threads now, where a failure can be told.
    arena_->add_runners(arena_->max_runners);
  } catch (const std::exception &failure) {
    arena_->shared->is_stopping.store(true, std::memory_order_seq_cst);
    throw_error(StatusCode::kMemory, "%u threads cannot be started: %s; ask for fewer", n_threads,
                failure.what());
  }
}

// Runners that run are waited for; those that TBB has not started yet only for a while, since the
// host may keep all of TBB's threads busy. What is left then belongs to the runners themselves.
ThreadPool::~ThreadPool() {
  SharedCalls &shared = *arena_->shared;
  shared.is_stopping.store(true, std::memory_order_seq_cst);
  uint32_t n_waits = 0;
  const Clock::time_point deadline = Clock::now() + kStartTime;
  while (shared.n_runners.load(std::memory_order_seq_cst) != 0 && Clock::now() < deadline) {
    wait_moment(n_waits);
  }
  while (shared.n_running.load(std::memory_order_seq_cst) != 0) wait_moment(n_waits);
  keep_for_late_runners(arena_->shared);
}

uint32_t ThreadPool::n_threads() const noexcept {
  return arena_->n_threads;
}

ThreadPool::Counters ThreadPool::counters() const noexcept {
  const SharedCalls &shared = *arena_->shared;
  Counters counters;
  counters.n_regions = shared.n_regions.load(std::memory_order_relaxed);
  counters.region_ns = shared.region_ns.load(std::memory_order_relaxed);
  counters.busy_ns = shared.busy_ns.load(std::memory_order_relaxed);
  return counters;
}

void ThreadPool::parallel_for(size_t n_tasks, FunctionRef<void(size_t, uint32_t)> body) noexcept {
  const ScopedFloatMode float_mode;
  const uint32_t n_workers =
      static_cast<uint32_t>(std::min<size_t>(n_tasks, arena_->max_runners + 1));
  Call *call = n_workers > 1 ? arena_->shared->claim_call() : nullptr;
  if (call == nullptr) {
    for (size_t task = 0; task < n_tasks; ++task) body(task, 0);
    return;
  }
  SharedCalls &shared = *arena_->shared;
  const Clock::time_point begin = Clock::now();
  call->open(n_tasks, n_workers, body);
  try {
    arena_->add_runners(n_workers - 1);
  } catch (const std::exception &) {
    // Fewer helpers, the same result.
  }
  shared.work_on(*call, 0);
  call->wait_for_others();
  call->release();
  shared.region_ns.fetch_add(nanoseconds_since(begin), std::memory_order_relaxed);
  shared.n_regions.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace colibri

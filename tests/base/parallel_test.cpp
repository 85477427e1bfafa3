// SPDX-License-Identifier: Apache-2.0
//
// ThreadPool: each task once, worker numbers that do not collide, hand-over of memory, several
// callers, idle and busy runners, no allocation. Built with the thread sanitizer these tests also
// prove the hand-over.

#include "lib/base/parallel.h"

#include <atomic>
#include <cfenv>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/status.h"
#include "tests/base/allocation_counter.h"
#include "tests/support/catch.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

using colibri::ThreadPool;

namespace {

// Catch2's assertions are not thread-safe; bodies count what is wrong and the test looks at the
// sum.
struct Tally {
  explicit Tally(size_t n_tasks, uint32_t n_threads) : runs(n_tasks, 0), in_use(n_threads) {}

  // Plain writes: each task has its own element, and the pool must hand them over.
  void run(size_t task, uint32_t worker) {
    if (task >= runs.size() || worker >= in_use.size()) {
      ++n_wrong;
      return;
    }
    if (in_use[worker].exchange(true)) ++n_wrong;
    ++runs[task];
    in_use[worker].store(false);
  }

  bool is_each_once() const {
    for (const int n : runs) {
      if (n != 1) return false;
    }
    return n_wrong == 0;
  }

  std::vector<int> runs;
  std::vector<std::atomic<bool>> in_use;
  std::atomic<int> n_wrong{0};
};

void work_for(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Computed at run time, in the rounding mode of the calling thread.
float one_third() {
  volatile float one = 1.0f;
  volatile float three = 3.0f;
  return one / three;
}

// Whether everything allocated and not freed is still reachable, where a sanitizer can tell.
bool is_free_of_leaks() {
#if defined(__SANITIZE_ADDRESS__)
  return __lsan_do_recoverable_leak_check() == 0;
#else
  return true;
#endif
}

}  // namespace

TEST_CASE("every task runs exactly once with a worker number below the number of threads") {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    ThreadPool pool(n_threads);
    REQUIRE(pool.n_threads() == n_threads);
    for (const size_t n_tasks : {0u, 1u, 2u, 3u, 1000u}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        Tally tally(n_tasks, n_threads);
        pool.parallel_for(n_tasks, [&](size_t task, uint32_t worker) { tally.run(task, worker); });
        CAPTURE(n_threads, n_tasks, repeat);
        REQUIRE(tally.is_each_once());
      }
    }
  }
}

TEST_CASE("one thread runs the tasks in order on the caller") {
  ThreadPool pool(1);
  std::vector<size_t> order;
  const std::thread::id caller = std::this_thread::get_id();
  bool is_elsewhere = false;
  pool.parallel_for(100, [&](size_t task, uint32_t worker) {
    order.push_back(task);
    if (worker != 0 || std::this_thread::get_id() != caller) is_elsewhere = true;
  });
  std::vector<size_t> ascending(100);
  std::iota(ascending.begin(), ascending.end(), size_t{0});
  REQUIRE(order == ascending);
  REQUIRE_FALSE(is_elsewhere);
}

TEST_CASE("tasks that take time are shared with a second thread") {
  if (std::thread::hardware_concurrency() < 2) {
    WARN("skipped: this machine has one processor");
    return;
  }
  ThreadPool pool(2);
  std::atomic<int> n_by_helper{0};
  for (int repeat = 0; repeat < 200 && n_by_helper == 0; ++repeat) {
    pool.parallel_for(8, [&](size_t, uint32_t worker) {
      work_for(std::chrono::microseconds(500));
      if (worker != 0) ++n_by_helper;
    });
  }
  REQUIRE(n_by_helper > 0);
}

TEST_CASE("tasks see what was written before the call, and the caller what they wrote") {
  ThreadPool pool(2);
  std::vector<uint64_t> values(64, 1);
  uint64_t factor = 0;
  for (uint64_t round = 0; round < 2000; ++round) {
    factor = round;
    pool.parallel_for(values.size(),
                      [&](size_t task, uint32_t) { values[task] = values[task] * 3 + factor; });
    for (uint64_t &value : values) value ^= round;  // plain access between the calls
  }
  uint64_t wanted = 1;
  for (uint64_t round = 0; round < 2000; ++round) wanted = (wanted * 3 + round) ^ round;
  REQUIRE(values == std::vector<uint64_t>(64, wanted));
}

TEST_CASE("runners that went to sleep come back") {
  ThreadPool pool(2);
  for (int repeat = 0; repeat < 30; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(repeat % 3));
    Tally tally(40, 2);
    pool.parallel_for(40, [&](size_t task, uint32_t worker) {
      work_for(std::chrono::microseconds(10));
      tally.run(task, worker);
    });
    REQUIRE(tally.is_each_once());
  }
}

TEST_CASE("several callers share one pool, more than it has places for") {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    ThreadPool pool(n_threads);
    std::atomic<int> n_failed{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 12; ++caller) {
      callers.emplace_back([&] {
        for (size_t repeat = 0; repeat < 100; ++repeat) {
          Tally tally(repeat % 37, n_threads);
          pool.parallel_for(repeat % 37,
                            [&](size_t task, uint32_t worker) { tally.run(task, worker); });
          if (!tally.is_each_once()) ++n_failed;
        }
      });
    }
    for (std::thread &caller : callers) caller.join();
    REQUIRE(n_failed == 0);
  }
}

TEST_CASE("pools live side by side and go away at any moment") {
  for (int repeat = 0; repeat < 50; ++repeat) {
    ThreadPool unused(3);
    ThreadPool first(2);
    ThreadPool second(5);
    Tally outer(20, 2);
    first.parallel_for(20, [&](size_t task, uint32_t worker) { outer.run(task, worker); });
    Tally other(20, 5);
    second.parallel_for(20, [&](size_t task, uint32_t worker) { other.run(task, worker); });
    REQUIRE(outer.is_each_once());
    REQUIRE(other.is_each_once());
  }
}

TEST_CASE("a pool may go away before its runners start, with no worker of TBB free") {
  std::atomic<bool> is_over{false};
  std::atomic<size_t> n_begun{0};
  ThreadPool busy(ThreadPool::kMaxThreads);
  std::thread host([&] {
    busy.parallel_for(ThreadPool::kMaxThreads, [&](size_t, uint32_t) {
      ++n_begun;
      while (!is_over) std::this_thread::yield();
    });
  });
  while (n_begun == 0) std::this_thread::yield();
  work_for(std::chrono::milliseconds(5));  // TBB's workers come in as well
  for (int repeat = 0; repeat < 3; ++repeat) {
    ThreadPool pool(2);
    Tally tally(20, 2);
    pool.parallel_for(20, [&](size_t task, uint32_t worker) { tally.run(task, worker); });
    CHECK(tally.is_each_once());
  }
  CHECK(is_free_of_leaks());
  is_over = true;
  host.join();
}

TEST_CASE("tasks run in the default float mode and the caller keeps its own") {
  ThreadPool pool(2);
  const float nearest = one_third();
  std::atomic<int> n_wrong{0};
  std::fesetround(FE_DOWNWARD);
  const float downward = one_third();
  for (const size_t n_tasks : {1u, 16u}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      pool.parallel_for(n_tasks, [&](size_t, uint32_t) {
        if (one_third() != nearest) ++n_wrong;
      });
    }
  }
  const float after = one_third();
  std::fesetround(FE_TONEAREST);
  REQUIRE(n_wrong == 0);
  REQUIRE(downward < nearest);
  REQUIRE(after == downward);
}

TEST_CASE("calls allocate nothing once the pool runs") {
  ThreadPool pool(2);
  std::vector<uint64_t> sums(2 * 16, 0);
  const auto call = [&](size_t n_tasks) {
    pool.parallel_for(n_tasks, [&](size_t task, uint32_t worker) { sums[worker * 16] += task; });
  };
  const auto run = [&] {
    for (size_t repeat = 0; repeat < 300; ++repeat) {
      call(repeat % 40);
      // Sometimes long enough for the runner to leave, so that it is enqueued anew.
      if (repeat % 30 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  run();
  const size_t before = colibri::test::count_allocations();
  run();
  REQUIRE(colibri::test::count_allocations() == before);
  // The counter counts.
  const std::string long_text(1000, 'x');
  REQUIRE(colibri::test::count_allocations() > before);
}

TEST_CASE("a number of threads out of range is an argument error that names the range") {
  for (const uint32_t n_threads : {0u, ThreadPool::kMaxThreads + 1, UINT32_MAX}) {
    try {
      const ThreadPool pool(n_threads);
      FAIL("the pool was made");
    } catch (const colibri::Error &error) {
      REQUIRE(error.status().code() == colibri::StatusCode::kArgument);
      REQUIRE(std::string(error.what()).find("1..1024") != std::string::npos);
    }
  }
  ThreadPool most(ThreadPool::kMaxThreads);
  Tally tally(3000, ThreadPool::kMaxThreads);
  most.parallel_for(3000, [&](size_t task, uint32_t worker) { tally.run(task, worker); });
  REQUIRE(tally.is_each_once());
}

TEST_CASE("a pool counts the time of its regions and the time that threads spent in tasks") {
  ThreadPool pool(2);
  constexpr size_t kTasks = 8;
  const auto run = [&] {
    const auto begin = std::chrono::steady_clock::now();
    pool.parallel_for(kTasks, [](size_t, uint32_t) { work_for(std::chrono::microseconds(500)); });
    return std::chrono::steady_clock::now() - begin;
  };
  std::chrono::nanoseconds elapsed = run();
  elapsed += run();
  const ThreadPool::Counters counters = pool.counters();
  REQUIRE(counters.n_regions == 2);
  REQUIRE(counters.region_ns <= static_cast<uint64_t>(elapsed.count()));
  REQUIRE(counters.busy_ns >= 2 * kTasks * 500'000);
  REQUIRE(counters.busy_ns <= counters.region_ns * pool.n_threads());
}

TEST_CASE("work that one thread does alone is no region") {
  ThreadPool pool(1);
  pool.parallel_for(4, [](size_t, uint32_t) {});
  REQUIRE(pool.counters().n_regions == 0);
}

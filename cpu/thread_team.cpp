// SPDX-License-Identifier: Apache-2.0
//
// A barrier at the start of a parallel_for keeps a fast thread from taking two tasks.

#include "cpu/thread_team.h"

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

namespace colibri::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kProbeTime = std::chrono::milliseconds(100);
constexpr auto kWaitTime = std::chrono::seconds(1);

// Times are those of Clock in its own ticks, so that threads can share them as atomics.
Clock::rep now() noexcept {
  return Clock::now().time_since_epoch().count();
}

double to_seconds(Clock::rep ticks) noexcept {
  return std::chrono::duration<double>(Clock::duration(ticks)).count();
}

class Barrier {
 public:
  Barrier(uint32_t n_members, Clock::duration patience) noexcept
      : n_members_(n_members), patience_(patience) {}

  // Returns when all have arrived, or one has lost patience.
  void wait() noexcept {
    n_arrived_.fetch_add(1, std::memory_order_acq_rel);
    const Clock::time_point deadline = Clock::now() + patience_;
    while (n_arrived_.load(std::memory_order_acquire) < n_members_ &&
           !is_given_up_.load(std::memory_order_acquire)) {
      if (Clock::now() > deadline) is_given_up_.store(true, std::memory_order_release);
      // Threads may be more than processors.
      std::this_thread::yield();
    }
  }

 private:
  const uint32_t n_members_;
  const Clock::duration patience_;
  std::atomic<uint32_t> n_arrived_{0};
  std::atomic<bool> is_given_up_{false};
};

template <typename Number>
void raise_to(std::atomic<Number> &value, Number candidate) noexcept {
  Number seen = value.load(std::memory_order_relaxed);
  while (seen < candidate && !value.compare_exchange_weak(seen, candidate)) {
  }
}

void lower_to(std::atomic<Clock::rep> &value, Clock::rep candidate) noexcept {
  Clock::rep seen = value.load(std::memory_order_relaxed);
  while (seen > candidate && !value.compare_exchange_weak(seen, candidate)) {
  }
}

}  // namespace

ThreadTeam::ThreadTeam(ThreadPool &threads) noexcept : threads_(&threads) {
  Barrier barrier(threads.n_threads(), kProbeTime);
  std::atomic<uint32_t> largest_worker{0};
  threads.parallel_for(threads.n_threads(), [&](size_t, uint32_t worker) {
    raise_to(largest_worker, worker);
    barrier.wait();
  });
  // Workers are numbered as they join.
  size_ = largest_worker.load() + 1;
}

double ThreadTeam::run(FunctionRef<void(uint32_t)> body) const noexcept {
  Barrier barrier(size_, kWaitTime);
  std::atomic<Clock::rep> first_start{std::numeric_limits<Clock::rep>::max()};
  std::atomic<Clock::rep> last_end{std::numeric_limits<Clock::rep>::min()};
  threads_->parallel_for(size_, [&](size_t member, uint32_t) {
    barrier.wait();
    lower_to(first_start, now());
    body(static_cast<uint32_t>(member));
    raise_to(last_end, now());
  });
  return to_seconds(last_end.load() - first_start.load());
}

double ThreadTeam::measure_rate(double seconds,
                                FunctionRef<uint64_t(uint32_t)> body) const noexcept {
  std::atomic<uint64_t> n_done{0};
  const double elapsed = run([&](uint32_t member) {
    const Clock::rep start = now();
    uint64_t own = 0;
    do {
      own += body(member);
    } while (to_seconds(now() - start) < seconds);
    n_done.fetch_add(own, std::memory_order_relaxed);
  });
  return static_cast<double>(n_done.load()) / elapsed;
}

}  // namespace colibri::cpu

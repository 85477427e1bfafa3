// SPDX-License-Identifier: Apache-2.0
//
// Threads that submit and withdraw while another steps, and steps that sleep. Also run under
// ThreadSanitizer.

#include <ctime>
#include <thread>

#include "tests/runtime/fake_model.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kVocabulary = 64;

double thread_cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

TEST_CASE("requests from several threads are neither lost nor ended twice") {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 60;
  FakeEngine engine(3, 64, kVocabulary);
  SchedulerOptions options = make_options(3, 8, kVocabulary);
  options.max_queued = 1u << 20;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  SchedulerDriver driver(scheduler);
  std::atomic<uint64_t> n_running = kThreads;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kEach; ++i) {
        const uint64_t seed = t * kEach + i;
        const uint64_t id =
            scheduler.submit(make_request(make_prompt(1 + seed % 9, seed, kVocabulary),
                                          1 + static_cast<uint32_t>(seed % 5)),
                             nullptr);
        // Outcomes depend on the moment; what is asserted is that each request ends once.
        if (seed % 5 == 0) (void)scheduler.cancel(id);
        if (seed % 7 == 0) (void)scheduler.stop(id);
        if (seed % 3 == 0) {
          (void)scheduler.pause(id);
          std::this_thread::yield();
          (void)scheduler.resume(id);
        }
        (void)scheduler.stats();
      }
      --n_running;
      scheduler.wake();
    });
  }
  while (n_running != 0) driver.step(true);
  for (std::thread &thread : threads) thread.join();
  driver.run();
  const SchedulerStats stats = scheduler.stats();
  CHECK(stats.n_submitted == kThreads * kEach);
  CHECK(stats.n_active + stats.n_queued == 0);
  for (uint64_t id = 1; id <= kThreads * kEach; ++id) {
    REQUIRE(driver.outcome(id).n_finished == 1);
    REQUIRE(driver.outcome(id).finish != FinishReason::kFailed);
  }
}

TEST_CASE("a cancel during a pass takes effect in the next step") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  const uint64_t id = scheduler.submit(make_request({1, 2, 3}, 30), nullptr);
  driver.step();
  // Catch's assertions belong to the main thread.
  Status status;
  fake_controls().on_pass = [&] {
    std::thread other([&] { status = scheduler.cancel(id); });
    other.join();
  };
  driver.step();
  CHECK(status.is_ok());
  fake_controls().on_pass = nullptr;
  CHECK(driver.outcome(id).n_finished == 0);
  CHECK(driver.step().n_rows == 0);
  CHECK(driver.outcome(id).finish == FinishReason::kCancelled);
}

TEST_CASE("a step that waits sleeps without using the processor until there is work") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  const double before = thread_cpu_seconds();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    scheduler.submit(make_request({1, 2, 3}, 1), nullptr);
  });
  CHECK(driver.step(true).n_rows == 3);
  other.join();
  // A loop that polls would have used most of the 300 ms.
  CHECK(thread_cpu_seconds() - before < 0.1);
  CHECK(driver.outcome(1).n_finished == 1);
}

TEST_CASE("wake ends a sleep that goes on and one that has not begun") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  scheduler.wake();
  CHECK(driver.step(true).n_rows == 0);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    scheduler.wake();
  });
  CHECK(driver.step(true).n_rows == 0);
  other.join();
  // A wake ends one sleep: the next one lasts until there is work.
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    scheduler.submit(make_request({4, 5}, 1), nullptr);
  });
  CHECK(driver.step(true).n_rows == 2);
  later.join();
  // And is not used up by a step that finds work.
  scheduler.submit(make_request({1, 2, 3}, 1), nullptr);
  scheduler.wake();
  CHECK(driver.step(true).n_rows == 3);
  CHECK(driver.step(true).n_rows == 0);
}

TEST_CASE("resume, cancel and stop wake a step that sleeps over paused requests") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  for (Status (Scheduler::*wish)(uint64_t) noexcept :
       {&Scheduler::resume, &Scheduler::cancel, &Scheduler::stop}) {
    const uint64_t id = scheduler.submit(make_request({1, 2, 3}, 2), nullptr);
    driver.step();
    REQUIRE(scheduler.pause(id).is_ok());
    CHECK(driver.step().n_rows == 0);
    Status status;
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      status = (scheduler.*wish)(id);
    });
    driver.step(true);
    other.join();
    CHECK(status.is_ok());
    CHECK(driver.outcome(id).n_finished == 1);
  }
}

TEST_CASE("a step does not sleep over events that wait to be read") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  scheduler.submit(make_request({1, 2, 3}, 1), nullptr);
  StepResult result;
  REQUIRE(scheduler.step(true, &result).is_ok());
  REQUIRE(scheduler.step(true, &result).is_ok());
  CHECK(result.n_rows == 0);
  CHECK(result.n_events == 4);
}

TEST_CASE("schedulers of one model step side by side") {
  FakeEngine engine(4, 64, kVocabulary);
  // The stand-in keeps the rows of the last pass without a lock, so passes take turns here.
  std::mutex mutex;
  uint64_t n_finished[2] = {};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(2, 8, kVocabulary));
      for (uint64_t i = 0; i < 20; ++i) scheduler.submit(make_request({1, 2, 3}, 4), nullptr);
      StepResult result;
      do {
        const std::lock_guard<std::mutex> lock(mutex);
        if (!scheduler.step(false, &result).is_ok()) return;
        for (const Event &event : scheduler.take_events(1000)) {
          n_finished[t] += event.kind == EventKind::kFinished ? 1 : 0;
        }
      } while (result.n_rows != 0);
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(n_finished[0] == 20);
  CHECK(n_finished[1] == 20);
  CHECK(engine.pool.n_taken() == 0);
}

// SPDX-License-Identifier: Apache-2.0
//
// Several threads at once: a call that does not fit the running one is COLIBRI_E_BUSY, never
// corruption; one model serves several engines in several threads with the same results as one
// after the other.

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

// A scheduler in whose step a thread sleeps, until the destructor wakes it.
class SleepingStep {
 public:
  explicit SleepingStep(colibri_scheduler *scheduler)
      : scheduler_(scheduler), thread_([this] {
          // Busy as well, if it begins while the loop below asks.
          do {
            status_ = colibri_scheduler_step(scheduler_, COLIBRI_STEP_WAIT, nullptr, nullptr);
          } while (status_ == COLIBRI_E_BUSY);
        }) {
    // The step is running when an exclusive call is refused.
    size_t n_events = 0;
    while (colibri_scheduler_next_events(scheduler_, nullptr, sizeof(colibri_event), 0, &n_events,
                                         nullptr) != COLIBRI_E_BUSY) {
      std::this_thread::yield();
    }
  }
  ~SleepingStep() { finish(); }
  SleepingStep(const SleepingStep &) = delete;
  SleepingStep &operator=(const SleepingStep &) = delete;

  void finish() {
    if (!thread_.joinable()) return;
    CHECK(colibri_scheduler_wake(scheduler_, nullptr) == COLIBRI_OK);
    thread_.join();
    CHECK(status_ == COLIBRI_OK);
  }
  void join() { thread_.join(); }

 private:
  colibri_scheduler *scheduler_;
  std::atomic<colibri_status> status_{COLIBRI_OK};
  std::thread thread_;
};

}  // namespace

TEST_CASE("calls beside a running step are busy or allowed, as documented") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  SleepingStep step(scheduler.get());
  // Not allowed beside it.
  CHECK(colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, nullptr, nullptr) ==
        COLIBRI_E_BUSY);
  CHECK(colibri_scheduler_destroy(scheduler.get(), nullptr) == COLIBRI_E_BUSY);
  // Allowed beside it.
  colibri_scheduler_stats stats{};
  stats.struct_size = sizeof(stats);
  CHECK(colibri_scheduler_get_stats(scheduler.get(), &stats, nullptr) == COLIBRI_OK);
  CHECK(colibri_scheduler_cancel(scheduler.get(), 1, nullptr) == COLIBRI_E_NOT_FOUND);
  CHECK(colibri_scheduler_pause(scheduler.get(), 1, nullptr) == COLIBRI_E_NOT_FOUND);
  colibri_model_facts facts{};
  facts.struct_size = sizeof(facts);
  CHECK(colibri_model_get_facts(model.get(), &facts, nullptr) == COLIBRI_OK);
  CHECK(colibri_model_close(model.get(), nullptr) == COLIBRI_E_BUSY);
  step.finish();
  CHECK(generate(scheduler.get(), {1, 2, 3}, 2).tokens.size() == 2);
}

TEST_CASE("a request that is submitted wakes a sleeping step") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  SleepingStep step(scheduler.get());
  const std::vector<int32_t> prompt = {1, 2, 3};
  const colibri_request_id request = submit(scheduler.get(), request_of(prompt, 2));
  step.join();
  CHECK(run_to_end(scheduler.get(), request).tokens.size() == 2);
}

TEST_CASE("several engines of one model run in several threads with the same results") {
  constexpr size_t kThreads = 3;
  colibri_model_options options = small_options();
  options.n_engines = kThreads;
  options.n_slots = kThreads;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(tiny_model().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  options.ram_budget_bytes = plan.minimum_bytes;  // experts come and go all the time
  const Model model = open_model(tiny_model(), options);
  const auto run = [&](size_t number) {
    colibri_scheduler_options one;
    colibri_scheduler_options_init(&one, sizeof(one));
    one.n_slots = 1;
    colibri_scheduler *scheduler = nullptr;
    if (colibri_scheduler_create(model.get(), &one, &scheduler, nullptr) != COLIBRI_OK) {
      return std::vector<int32_t>();
    }
    std::vector<int32_t> tokens;
    for (int32_t round = 0; round < 3; ++round) {
      const std::vector<int32_t> prompt = {static_cast<int32_t>(number) + 1, round + 2, 3};
      const colibri_request_options request = request_of(prompt, 8);
      colibri_request_id id = 0;
      colibri_scheduler_submit(scheduler, &request, &id, nullptr, nullptr);
      for (bool is_running = true; is_running;) {
        colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, nullptr);
        colibri_event events[8];
        size_t n_events = 0;
        colibri_scheduler_next_events(scheduler, events, sizeof(events[0]), 8, &n_events, nullptr);
        for (size_t i = 0; i < n_events; ++i) {
          if (events[i].kind == COLIBRI_EVENT_TOKEN) tokens.push_back(events[i].token);
          is_running = is_running && events[i].kind != COLIBRI_EVENT_FINISHED;
        }
      }
    }
    colibri_scheduler_destroy(scheduler, nullptr);
    return tokens;
  };
  std::vector<std::vector<int32_t>> expected;
  for (size_t i = 0; i < kThreads; ++i) expected.push_back(run(i));
  std::vector<std::vector<int32_t>> found(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { found[i] = run(i); });
  for (std::thread &thread : threads) thread.join();
  CHECK(found == expected);
  for (const std::vector<int32_t> &tokens : expected) CHECK(tokens.size() >= 3);
}

TEST_CASE("two threads that decode one batch give one result and busy calls") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> expected = decode(batch.get(), slot.get(), {1, 2, 3, 4, 5, 6});
  std::atomic<int> n_unexpected{0};
  for (int round = 0; round < 20; ++round) {
    REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
    REQUIRE(colibri_kv_slot_truncate(slot.get(), 0, nullptr) == COLIBRI_OK);
    const int32_t tokens[] = {1, 2, 3, 4, 5, 6};
    REQUIRE(colibri_batch_add(batch.get(), slot.get(), tokens, 6, COLIBRI_LOGITS_LAST, nullptr,
                              nullptr) == COLIBRI_OK);
    std::atomic<int> n_decoded{0};
    const auto race = [&] {
      const colibri_status status = colibri_batch_decode(batch.get(), nullptr);
      n_decoded += status == COLIBRI_OK ? 1 : 0;
      // Busy beside the other call, or decoded already behind it.
      const bool is_expected =
          status == COLIBRI_OK || status == COLIBRI_E_BUSY || status == COLIBRI_E_STATE;
      n_unexpected += is_expected ? 0 : 1;
      const colibri_status truncated = colibri_kv_slot_truncate(slot.get(), 7, nullptr);
      n_unexpected += truncated == COLIBRI_E_ARGUMENT || truncated == COLIBRI_E_BUSY ? 0 : 1;
      n_unexpected += colibri_kv_slot_length(slot.get()) <= 6 ? 0 : 1;
    };
    std::thread other(race);
    race();
    other.join();
    CHECK(n_decoded == 1);
    const float *logits = nullptr;
    REQUIRE(colibri_batch_logits(batch.get(), 5, &logits, nullptr, nullptr) == COLIBRI_OK);
    CHECK(std::vector<float>(logits, logits + expected.size()) == expected);
  }
  CHECK(n_unexpected == 0);
}

TEST_CASE("slots are taken and given back by several threads without loss") {
  colibri_model_options options = small_options();
  options.n_slots = 8;
  const Model model = open_model(tiny_model(), options);
  std::atomic<int> n_unexpected{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        colibri_kv_slot *first = nullptr;
        colibri_kv_slot *second = nullptr;
        n_unexpected += colibri_kv_slot_create(model.get(), &first, nullptr) == COLIBRI_OK ? 0 : 1;
        n_unexpected += colibri_kv_slot_fork(first, 0, &second, nullptr) == COLIBRI_OK ? 0 : 1;
        n_unexpected += colibri_kv_slot_destroy(first, nullptr) == COLIBRI_OK ? 0 : 1;
        n_unexpected += colibri_kv_slot_destroy(second, nullptr) == COLIBRI_OK ? 0 : 1;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(n_unexpected == 0);
}

TEST_CASE("requests are submitted and cancelled by several threads beside the steps") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  std::atomic<int> n_alive{3};
  std::atomic<int> n_unexpected{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 30; ++round) {
        const std::vector<int32_t> prompt = {i + 1, round + 1, 3};
        const colibri_request_options request = request_of(prompt, 3);
        colibri_request_id id = 0;
        const colibri_status status =
            colibri_scheduler_submit(scheduler.get(), &request, &id, nullptr, nullptr);
        n_unexpected += status == COLIBRI_OK ? 0 : 1;
        if (round % 3 == 0) {
          const colibri_status cancelled = colibri_scheduler_cancel(scheduler.get(), id, nullptr);
          n_unexpected += cancelled == COLIBRI_OK || cancelled == COLIBRI_E_NOT_FOUND ? 0 : 1;
        }
      }
      --n_alive;
      colibri_scheduler_wake(scheduler.get(), nullptr);
    });
  }
  size_t n_finished = 0;
  colibri_step_result result{};
  result.struct_size = sizeof(result);
  while (n_alive > 0 || result.n_active + result.n_queued > 0) {
    REQUIRE(colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, &result, nullptr) ==
            COLIBRI_OK);
    colibri_event events[16];
    size_t n_events = 0;
    REQUIRE(colibri_scheduler_next_events(scheduler.get(), events, sizeof(events[0]), 16, &n_events,
                                          nullptr) == COLIBRI_OK);
    for (size_t i = 0; i < n_events; ++i) {
      n_finished += events[i].kind == COLIBRI_EVENT_FINISHED ? 1 : 0;
    }
    if (n_events == 16) result.n_active = 1;  // there may be more
  }
  for (std::thread &thread : threads) thread.join();
  for (size_t n_events = 1; n_events != 0;) {
    colibri_event event;
    REQUIRE(colibri_scheduler_next_events(scheduler.get(), &event, sizeof(event), 1, &n_events,
                                          nullptr) == COLIBRI_OK);
    n_finished += n_events == 1 && event.kind == COLIBRI_EVENT_FINISHED ? 1 : 0;
    if (n_events == 0 && n_finished < 90) {
      REQUIRE(colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, nullptr, nullptr) ==
              COLIBRI_OK);
      n_events = 1;
    }
  }
  CHECK(n_finished == 90);
  CHECK(n_unexpected == 0);
}

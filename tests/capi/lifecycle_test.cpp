// SPDX-License-Identifier: Apache-2.0
//
// Orders of life: random sequences of all calls, and memory that stays flat over many openings and
// many requests. What counts is anonymous memory of the process and its swapped part, not the
// resident set alone.

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/sanitizer.h"

using namespace capi_test;

namespace {

uint64_t anonymous_bytes() {
  std::ifstream file("/proc/self/status");
  uint64_t kilobytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("VmSwap:", 0) == 0) {
      kilobytes += std::stoull(line.substr(line.find(':') + 1));
    }
  }
  REQUIRE(kilobytes > 0);
  return kilobytes * 1024;
}

// Every object that a host may hold, and random calls on them in any order.
class RandomHost {
 public:
  explicit RandomHost(uint32_t seed) : random_(seed) {}
  ~RandomHost() { end_all(); }
  RandomHost(const RandomHost &) = delete;
  RandomHost &operator=(const RandomHost &) = delete;

  void act() {
    switch (pick(16)) {
      case 0:
        return open();
      case 1:
        return check(colibri_model_close(model_, nullptr), &model_);
      case 2:
        return make(slot_, colibri_kv_slot_create);
      case 3:
        return check(colibri_kv_slot_destroy(slot_, nullptr), &slot_);
      case 4:
        return make(batch_, colibri_batch_create);
      case 5:
        return check(colibri_batch_destroy(batch_, nullptr), &batch_);
      case 6:
        if (scheduler_ == nullptr) colibri_scheduler_create(model_, nullptr, &scheduler_, nullptr);
        return;
      case 7:
        return check(colibri_scheduler_destroy(scheduler_, nullptr), &scheduler_);
      case 8:
        return expect(colibri_batch_decode(batch_, nullptr));
      case 9:
        return expect(colibri_batch_clear(batch_, nullptr));
      case 10:
        return expect(colibri_kv_slot_truncate(slot_, pick(4), nullptr));
      case 11:
        return add();
      case 12:
        return submit_one();
      case 13:
        return expect(colibri_scheduler_cancel(scheduler_, pick(8), nullptr));
      case 14:
        return read_events();
      default:
        return expect(colibri_scheduler_step(scheduler_, COLIBRI_STEP_NOWAIT, nullptr, nullptr));
    }
  }

  void end_all() {
    check(colibri_scheduler_destroy(scheduler_, nullptr), &scheduler_);
    check(colibri_batch_destroy(batch_, nullptr), &batch_);
    check(colibri_kv_slot_destroy(slot_, nullptr), &slot_);
    check(colibri_model_close(model_, nullptr), &model_);
    CHECK(model_ == nullptr);
  }

 private:
  uint32_t pick(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  // Nothing else may come out of a valid handle or NULL.
  void expect(colibri_status status) {
    CAPTURE(colibri_status_name(status));
    CHECK((status == COLIBRI_OK || status == COLIBRI_E_HANDLE || status == COLIBRI_E_STATE ||
           status == COLIBRI_E_BUSY || status == COLIBRI_E_ARGUMENT ||
           status == COLIBRI_E_CAPACITY || status == COLIBRI_E_CONTEXT ||
           status == COLIBRI_E_NOT_FOUND));
  }
  template <typename T>
  void check(colibri_status status, T **handle) {
    CHECK((status == COLIBRI_OK || status == COLIBRI_E_BUSY));
    if (status == COLIBRI_OK) *handle = nullptr;
  }
  template <typename T>
  void make(T *&handle, colibri_status (*create)(colibri_model *, T **, colibri_error *)) {
    if (handle == nullptr) expect(create(model_, &handle, nullptr));
  }
  void open() {
    if (model_ != nullptr) return;
    colibri_model_options options = small_options();
    options.n_engines = 1 + pick(2);
    expect(colibri_model_open(tiny_model().c_str(), &options, &model_, nullptr));
  }
  void add() {
    const int32_t tokens[] = {1, 2, 3};
    expect(colibri_batch_add(batch_, slot_, tokens, 1 + pick(3), static_cast<int32_t>(pick(3)),
                             nullptr, nullptr));
  }
  void submit_one() {
    const std::vector<int32_t> prompt(1 + pick(9), 5);
    const colibri_request_options options = request_of(prompt, 1 + pick(5));
    colibri_request_id request = 0;
    expect(colibri_scheduler_submit(scheduler_, &options, &request, nullptr, nullptr));
  }
  void read_events() {
    colibri_event events[3];
    size_t n_events = 0;
    expect(colibri_scheduler_next_events(scheduler_, events, sizeof(events[0]), 3, &n_events,
                                         nullptr));
  }

  std::mt19937 random_;
  colibri_model *model_ = nullptr;
  colibri_kv_slot *slot_ = nullptr;
  colibri_batch *batch_ = nullptr;
  colibri_scheduler *scheduler_ = nullptr;
};

}  // namespace

TEST_CASE("random sequences of calls end in success or a documented code") {
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    RandomHost host(seed);
    for (int i = 0; i < 150; ++i) host.act();
  }
}

TEST_CASE("a model that was opened and closed without any use leaves nothing behind") {
  for (int i = 0; i < 3; ++i) open_tiny().reset();
  CHECK(open_tiny() != nullptr);
}

TEST_CASE("twenty openings reach a plateau after the second") {
  if (colibri::test::kIsSanitized) return;
  uint64_t after_second = 0;
  uint64_t largest = 0;
  for (int i = 1; i <= 20; ++i) {
    {
      const Model model = open_tiny();
      const Scheduler scheduler = make_scheduler(model.get());
      CHECK(generate(scheduler.get(), {1, 2, 3}, 4).tokens.size() == 4);
    }
    if (i == 2) after_second = anonymous_bytes();
    if (i > 2) largest = std::max(largest, anonymous_bytes());
  }
  CHECK(largest <= after_second + (uint64_t{2} << 20));
}

TEST_CASE("a thousand short requests leave memory flat") {
  if (colibri::test::kIsSanitized) return;
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  uint64_t after_hundred = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<int32_t> prompt = {1 + i % 100, 2, 3, 4 + i % 7};
    const Outcome outcome = generate(scheduler.get(), prompt, 2);
    CHECK(outcome.finish != COLIBRI_FINISH_FAILED);
    if (i == 100) after_hundred = anonymous_bytes();
  }
  CHECK(anonymous_bytes() <= after_hundred + (uint64_t{1} << 20));
}

// SPDX-License-Identifier: Apache-2.0
//
// Every allocation of a submit, of a step and of reading events refused in turn: an error for whom
// it concerns, and a scheduler that goes on.

#include <optional>
#include <string>

#include "tests/runtime/failing_new.h"
#include "tests/runtime/fake_model.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kVocabulary = 64;
const std::string kTokenizer =
    std::string(COLIBRI_TEST_DATA) + "/../../../examples/models/colibri-tiny/tokenizer.json";

}  // namespace

TEST_CASE("a submit without memory is refused and leaves the queue as it was") {
  const auto tokenizer = Tokenizer::open(kTokenizer);
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, tokenizer.get(), make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  RequestOptions request = make_request(make_prompt(5, 1, kVocabulary), 3);
  request.stop_ids = {63, 62};
  request.stop_strings = {"first stop string", "second"};
  uint64_t n_refused = 0;
  uint64_t id = 0;
  while (id == 0) {
    // The copy is the caller's.
    RequestOptions copy = request;
    std::optional<StatusCode> refusal;
    {
      const AllocationLimit limit(n_refused);
      try {
        id = scheduler.submit(std::move(copy), nullptr);
      } catch (const Error &error) {
        refusal = error.status().code();
      }
    }
    if (!refusal) break;
    REQUIRE(*refusal == StatusCode::kMemory);
    ++n_refused;
    REQUIRE(scheduler.stats().n_rejected == n_refused);
    REQUIRE(scheduler.stats().n_submitted == 0);
    REQUIRE(scheduler.stats().n_queued == 0);
  }
  CHECK(n_refused > 3);
  CHECK(id == 1);
  driver.run();
  CHECK(driver.outcome(id).n_finished == 1);
}

TEST_CASE("a step without memory for events does nothing and a later one goes on") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 100; ++i) {
    ids.push_back(scheduler.submit(make_request({1, 2, 3}, 2), nullptr));
    REQUIRE(scheduler.cancel(ids.back()).is_ok());
  }
  StatusCode code = StatusCode::kOk;
  for (uint64_t n_allowed = 0; n_allowed < 10; ++n_allowed) {
    {
      const AllocationLimit limit(n_allowed);
      const Status status = scheduler.step(false, nullptr);
      code = status.code();
    }
    REQUIRE(code == StatusCode::kMemory);
    REQUIRE(scheduler.stats().n_queued == 100);
  }
  driver.step();
  for (const uint64_t id : ids) CHECK(driver.outcome(id).finish == FinishReason::kCancelled);
}

TEST_CASE("a text that finds no memory fails its request alone") {
  const auto tokenizer = Tokenizer::open(kTokenizer);
  FakeEngine engine(2, 200, tokenizer->size());
  const std::string text =
      "Once upon a time there was a little girl who wanted to see the world and all of its birds";
  tokenizer->encode(text, ControlTokens::kPlain, &fake_controls().script);
  const auto n_tokens = static_cast<uint32_t>(fake_controls().script.size());
  Scheduler scheduler(*engine.model, engine.pool, tokenizer.get(),
                      make_options(2, 8, tokenizer->size()));
  SchedulerDriver driver(scheduler);
  // Holds back everything until its end, which then needs more than an event usually has.
  RequestOptions holding = make_request({0}, n_tokens);
  holding.stop_strings = {text + " and fish"};
  const uint64_t held = scheduler.submit(holding, nullptr);
  const uint64_t other = scheduler.submit(make_request({0}, n_tokens + 2), nullptr);
  for (uint32_t i = 0; i + 1 < n_tokens; ++i) driver.step();
  REQUIRE(driver.outcome(held).n_finished == 0);
  bool is_ok = false;
  bool was_hit = false;
  {
    const AllocationLimit limit(0);
    is_ok = scheduler.step(false, nullptr).is_ok();
    was_hit = limit.was_hit();
  }
  REQUIRE(is_ok);
  REQUIRE(was_hit);
  driver.run();
  CHECK(driver.outcome(held).finish == FinishReason::kFailed);
  CHECK(driver.outcome(held).status.code() == StatusCode::kMemory);
  CHECK(driver.outcome(other).finish == FinishReason::kLength);
  CHECK(driver.outcome(other).text.substr(0, text.size()) == text);
  CHECK(scheduler.stats().n_failed == 1);
}

TEST_CASE("events are read in smaller lists when memory is short") {
  FakeEngine engine(1, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  scheduler.submit(make_request({1, 2, 3}, 40), nullptr);
  StepResult result;
  do {
    REQUIRE(scheduler.step(false, &result).is_ok());
  } while (result.n_rows != 0);
  REQUIRE(result.n_events == 43);
  size_t n_first = 0;
  {
    const AllocationLimit limit(0);
    n_first = scheduler.take_events(100).size();
  }
  CHECK(n_first > 0);
  CHECK(n_first < 43);
  CHECK(scheduler.take_events(100).size() == 43 - n_first);
}

TEST_CASE("a scheduler that cannot be made gives everything back") {
  FakeEngine engine(2, 64, kVocabulary);
  uint64_t n_refused = 0;
  for (bool is_made = false; !is_made;) {
    const SchedulerOptions options = make_options(2, 8, kVocabulary);
    std::optional<StatusCode> refusal;
    {
      const AllocationLimit limit(n_refused);
      try {
        const Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
        is_made = true;
      } catch (const Error &error) {
        refusal = error.status().code();
      }
    }
    if (is_made) break;
    REQUIRE(*refusal == StatusCode::kMemory);
    REQUIRE(engine.pool.n_taken() == 0);
    ++n_refused;
  }
  CHECK(n_refused > 5);
}

// SPDX-License-Identifier: Apache-2.0
//
// Cancel, stop, pause and failures at every stage of a request: it ends once, for the right reason,
// and nobody else notices.

#include <string>

#include "tests/runtime/fake_model.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kVocabulary = 64;
// Prompts and outputs stay below, so that a token above is met where a test puts it and nowhere
// else.
constexpr uint32_t kUsualTokens = 60;

// Two slots; two companions whose prompts do not matter, and a request under test with a prompt of
// ten tokens.
struct Scene {
  explicit Scene(uint32_t n_slots = 3) : engine(n_slots, 64, kVocabulary) {
    SchedulerOptions options = make_options(n_slots, 16, kUsualTokens);
    options.prefill_chunk = 4;
    scheduler = std::make_unique<Scheduler>(*engine.model, engine.pool, nullptr, options);
    driver = std::make_unique<SchedulerDriver>(*scheduler);
    for (uint64_t i = 0; i < 2; ++i) {
      companions.push_back(
          scheduler->submit(make_request(make_prompt(5, i, kUsualTokens), 25), nullptr));
    }
  }

  uint64_t submit(uint64_t seed = 7, uint32_t max_tokens = 12) {
    return scheduler->submit(make_request(make_prompt(10, seed, kUsualTokens), max_tokens),
                             nullptr);
  }

  FakeEngine engine;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<SchedulerDriver> driver;
  std::vector<uint64_t> companions;
};

std::vector<std::vector<int32_t>> companion_tokens() {
  Scene scene;
  scene.driver->run();
  std::vector<std::vector<int32_t>> tokens;
  for (const uint64_t id : scene.companions) tokens.push_back(scene.driver->outcome(id).tokens);
  return tokens;
}

void check_companions(Scene &scene) {
  scene.driver->run();
  static const auto expected = companion_tokens();
  for (size_t i = 0; i < expected.size(); ++i) {
    const Outcome &outcome = scene.driver->outcome(scene.companions[i]);
    CHECK(outcome.tokens == expected[i]);
    CHECK(outcome.finish == FinishReason::kLength);
  }
}

std::vector<int32_t> expected_tokens() {
  Scene scene;
  const uint64_t id = scene.submit();
  scene.driver->run();
  return scene.driver->outcome(id).tokens;
}

}  // namespace

TEST_CASE("cancel and stop work at every stage and leave the others' tokens as they were") {
  static const std::vector<int32_t> expected = expected_tokens();
  REQUIRE(expected.size() == 12);
  for (const bool is_cancel : {true, false}) {
    for (const bool is_paused : {false, true}) {
      // Steps before the wish: 0 is in the queue, 1 and 2 between prompt chunks, later between
      // tokens.
      for (int n_steps = 0; n_steps < 13; ++n_steps) {
        Scene scene;
        const uint64_t id = scene.submit();
        for (int i = 0; i < n_steps; ++i) scene.driver->step();
        if (is_paused) {
          REQUIRE(scene.scheduler->pause(id).is_ok());
          scene.driver->step();
        }
        const size_t n_before = scene.driver->outcome(id).tokens.size();
        CHECK(n_before == static_cast<size_t>(std::max(0, n_steps - 2)));
        const Status status = is_cancel ? scene.scheduler->cancel(id) : scene.scheduler->stop(id);
        REQUIRE(status.is_ok());
        const uint32_t n_active = scene.driver->step().n_active;
        CAPTURE(is_cancel, is_paused, n_steps);
        const Outcome &outcome = scene.driver->outcome(id);
        CHECK(outcome.n_finished == 1);
        CHECK(outcome.finish == (is_cancel ? FinishReason::kCancelled : FinishReason::kStopped));
        // Nothing was computed for it after the wish, and its slot is free in the same step.
        CHECK(outcome.tokens ==
              std::vector<int32_t>(expected.begin(),
                                   expected.begin() + static_cast<ptrdiff_t>(n_before)));
        CHECK(n_active == 2);
        CHECK(scene.scheduler->cancel(id).code() == StatusCode::kNotFound);
        CHECK(scene.scheduler->stop(id).code() == StatusCode::kNotFound);
        check_companions(scene);
        const SchedulerStats stats = scene.scheduler->stats();
        CHECK(stats.n_cancelled == (is_cancel ? 1 : 0));
        CHECK(stats.n_stopped == (is_cancel ? 0 : 1));
      }
    }
  }
}

TEST_CASE("a cancelled request's slot goes to a waiting one in the same step") {
  Scene scene(2);
  const uint64_t waiting = scene.submit();
  scene.driver->step();
  CHECK(scene.driver->outcome(waiting).n_started == 0);
  REQUIRE(scene.scheduler->cancel(scene.companions[0]).is_ok());
  const StepResult result = scene.driver->step();
  CHECK(result.n_active == 2);
  CHECK(scene.driver->outcome(waiting).n_started == 1);
}

TEST_CASE("cancel of many waiting requests at once ends each of them once") {
  Scene scene(2);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 500; ++i) ids.push_back(scene.submit(i, 1));
  for (size_t i = 0; i < ids.size(); i += 2) REQUIRE(scene.scheduler->cancel(ids[i]).is_ok());
  scene.driver->step();
  for (size_t i = 0; i < ids.size(); i += 2) {
    REQUIRE(scene.driver->outcome(ids[i]).finish == FinishReason::kCancelled);
  }
  scene.driver->run();
  for (size_t i = 1; i < ids.size(); i += 2) {
    REQUIRE(scene.driver->outcome(ids[i]).finish == FinishReason::kLength);
  }
}

TEST_CASE("wishes for requests that do not exist are refused by number") {
  Scene scene;
  for (const uint64_t id : {uint64_t{0}, uint64_t{77}, ~uint64_t{0}}) {
    for (const Status &status : {scene.scheduler->cancel(id), scene.scheduler->stop(id),
                                 scene.scheduler->pause(id), scene.scheduler->resume(id)}) {
      CHECK(status.code() == StatusCode::kNotFound);
      CHECK(std::string(status.message()).find(std::to_string(id)) != std::string::npos);
    }
  }
  check_companions(scene);
}

TEST_CASE("a paused request keeps its slot, gets no rows, and gives the same tokens later") {
  static const std::vector<int32_t> expected = expected_tokens();
  for (int n_steps = 0; n_steps < 10; ++n_steps) {
    Scene scene;
    const uint64_t id = scene.submit();
    for (int i = 0; i < n_steps; ++i) scene.driver->step();
    REQUIRE(scene.scheduler->pause(id).is_ok());
    check_companions(scene);
    CAPTURE(n_steps);
    const size_t n_before = scene.driver->outcome(id).tokens.size();
    CHECK(n_before == static_cast<size_t>(std::max(0, n_steps - 2)));
    const SchedulerStats stats = scene.scheduler->stats();
    CHECK(stats.n_active == (n_steps == 0 ? 0 : 1));
    CHECK(stats.n_queued == (n_steps == 0 ? 1 : 0));
    // Only paused requests are left: there is nothing to do.
    CHECK(scene.driver->step().n_rows == 0);
    REQUIRE(scene.scheduler->resume(id).is_ok());
    scene.driver->run();
    CHECK(scene.driver->outcome(id).tokens == expected);
  }
}

TEST_CASE("a paused request in the queue lets others pass") {
  Scene scene(2);
  const uint64_t paused = scene.submit(8, 2);
  const uint64_t other = scene.submit(9, 2);
  REQUIRE(scene.scheduler->pause(paused).is_ok());
  scene.driver->run();
  CHECK(scene.driver->outcome(other).n_finished == 1);
  CHECK(scene.driver->outcome(paused).n_started == 0);
  REQUIRE(scene.scheduler->resume(paused).is_ok());
  scene.driver->run();
  CHECK(scene.driver->outcome(paused).n_finished == 1);
}

TEST_CASE("a failing read ends the request that needs it with its message") {
  // Token 60 is only in the failing prompt; the stand-in's outputs are checked against a run
  // without it.
  for (const size_t place : {0u, 5u, 9u}) {
    Scene scene;
    fake_controls().failing_token = 63;
    std::vector<int32_t> prompt = make_prompt(10, 7, kUsualTokens);
    prompt[place] = 63;
    const uint64_t id = scene.scheduler->submit(make_request(prompt, 5), nullptr);
    scene.driver->step();
    scene.driver->step();
    scene.driver->step();
    fake_controls().failing_token = -1;
    const Outcome &outcome = scene.driver->outcome(id);
    CHECK(outcome.finish == FinishReason::kFailed);
    CHECK(outcome.status.code() == StatusCode::kIo);
    CHECK(std::string(outcome.status.message()).find("token 63") != std::string::npos);
    CHECK(outcome.tokens.empty());
    CHECK(outcome.last.n_prompt_done == place);
    CHECK(scene.scheduler->stats().n_failed == 1);
    // What came before the failure is kept for the next try.
    const uint64_t again = scene.scheduler->submit(make_request(prompt, 5), nullptr);
    scene.driver->run();
    CHECK(scene.driver->outcome(again).finish == FinishReason::kLength);
    CHECK(scene.driver->outcome(again).last.n_prompt_reused >= place);
  }
}

TEST_CASE("logits that are not finite end their request alone, and its entries are not reused") {
  Scene scene;
  fake_controls().spoiled_token = 63;
  std::vector<int32_t> prompt = make_prompt(10, 7, kUsualTokens);
  prompt[9] = 63;
  const uint64_t id = scene.scheduler->submit(make_request(prompt, 5), nullptr);
  for (int i = 0; i < 3; ++i) scene.driver->step();
  fake_controls().spoiled_token = -1;
  const Outcome &outcome = scene.driver->outcome(id);
  CHECK(outcome.finish == FinishReason::kFailed);
  CHECK(outcome.status.code() == StatusCode::kNonFinite);
  const uint64_t again = scene.scheduler->submit(make_request(prompt, 5), nullptr);
  scene.driver->run();
  CHECK(scene.driver->outcome(again).last.n_prompt_reused == 0);
  CHECK(scene.driver->outcome(again).finish == FinishReason::kLength);
  CHECK(scene.driver->outcome(scene.companions[0]).n_finished == 1);
}

TEST_CASE("events that nobody reads are kept") {
  FakeEngine engine(2, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(2, 16, kVocabulary));
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 20; ++i) {
    ids.push_back(scheduler.submit(make_request(make_prompt(5, i, kUsualTokens), 30), nullptr));
  }
  StepResult result;
  do {
    REQUIRE(scheduler.step(false, &result).is_ok());
  } while (result.n_rows != 0);
  CHECK(result.n_events == 20 * (1 + 1 + 30 + 1));
  SchedulerDriver driver(scheduler);
  driver.read_events();
  for (const uint64_t id : ids) CHECK(driver.outcome(id).tokens.size() == 30);
}

TEST_CASE("a scheduler with work can be destroyed and gives its slots back") {
  FakeEngine engine(2, 64, kVocabulary);
  {
    Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(2, 16, kVocabulary));
    for (uint64_t i = 0; i < 5; ++i) {
      scheduler.submit(make_request(make_prompt(5, i, kUsualTokens), 30), nullptr);
    }
    REQUIRE(scheduler.step(false, nullptr).is_ok());
    CHECK(engine.pool.n_taken() == 2);
  }
  CHECK(engine.pool.n_taken() == 0);
}

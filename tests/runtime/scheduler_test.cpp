// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler promises about steps, rows, ends and slots, over the stand-in model.

#include "lib/runtime/scheduler.h"

#include <string>

#include "tests/runtime/fake_model.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kVocabulary = 64;

// The tokens of a request that has the engine for itself.
Outcome run_alone(const RequestOptions &options, uint32_t capacity = 64) {
  const FakeControls kept = fake_controls();
  FakeEngine engine(1, capacity, kVocabulary);
  fake_controls() = kept;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 64, kVocabulary));
  SchedulerDriver driver(scheduler);
  const uint64_t id = scheduler.submit(options, nullptr);
  driver.run();
  return driver.outcome(id);
}

RequestOptions random_request(uint64_t seed, uint32_t capacity = 64) {
  const auto draw = [seed](uint64_t what, uint32_t below) {
    return static_cast<uint32_t>(draw_uniform(seed * 31, what) * below);
  };
  std::vector<int32_t> prompt = make_prompt(1 + draw(1, capacity / 4), seed, kVocabulary);
  if (seed % 3 == 0) {
    const std::vector<int32_t> shared = make_prompt(capacity / 4, 99, kVocabulary);
    prompt.insert(prompt.begin(), shared.begin(), shared.end());
  }
  RequestOptions options = make_request(std::move(prompt), 1 + draw(2, capacity / 2));
  if (draw(3, 2) == 1) options.sampler.temperature = 2.0f;
  options.sampler.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("a request starts, makes progress, gives its tokens and ends at its limit") {
  FakeEngine engine(1, 32, kVocabulary);
  SchedulerOptions options = make_options(1, 8, kVocabulary);
  options.prefill_chunk = 3;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  SchedulerDriver driver(scheduler);
  RequestOptions request = make_request(make_prompt(7, 1, kVocabulary), 4);
  request.user_data = 1234567890123;
  request.wants_logprobs = true;
  uint32_t max_tokens = 0;
  const uint64_t id = scheduler.submit(request, &max_tokens);
  CHECK(id == 1);
  CHECK(max_tokens == 4);
  driver.run();
  const Outcome &outcome = driver.outcome(id);
  CHECK(outcome.n_started == 1);
  CHECK(outcome.prefill == std::vector<uint32_t>{3, 6, 7});
  CHECK(outcome.tokens.size() == 4);
  for (const float logprob : outcome.logprobs) CHECK(logprob < 0.0f);
  CHECK(outcome.finish == FinishReason::kLength);
  CHECK(outcome.status.is_ok());
  CHECK(outcome.last.user_data == 1234567890123);
  CHECK(outcome.last.n_prompt == 7);
  CHECK(outcome.last.n_prompt_done == 7);
  CHECK(outcome.last.n_generated == 4);
  CHECK_FALSE(outcome.last.has_text);
  const SchedulerStats stats = scheduler.stats();
  CHECK(stats.n_prefill_rows == 7);
  // The last generated token is not computed.
  CHECK(stats.n_decode_rows == 3);
  CHECK(stats.n_steps == 6);
  CHECK(stats.n_tokens == 4);
  CHECK(stats.n_length == 1);
}

TEST_CASE("a prompt may fill the slot but for one token") {
  FakeEngine engine(1, 16, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 64, kVocabulary));
  SchedulerDriver driver(scheduler);
  uint32_t max_tokens = 0;
  const uint64_t full =
      scheduler.submit(make_request(make_prompt(15, 1, kVocabulary), 9), &max_tokens);
  CHECK(max_tokens == 1);
  const uint64_t whole =
      scheduler.submit(make_request(make_prompt(1, 2, kVocabulary), 0), &max_tokens);
  CHECK(max_tokens == 15);
  driver.run();
  CHECK(driver.outcome(full).tokens.size() == 1);
  CHECK(driver.outcome(whole).tokens.size() == 15);
  CHECK(driver.outcome(whole).finish == FinishReason::kLength);
}

TEST_CASE("refused requests leave nothing behind but their count") {
  FakeEngine engine(1, 16, kVocabulary);
  SchedulerOptions options = make_options(1, 8, kVocabulary);
  options.max_queued = 2;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  const auto refusal = [&](const RequestOptions &request) {
    uint32_t max_tokens = 77;
    try {
      scheduler.submit(request, &max_tokens);
    } catch (const Error &error) {
      CHECK(max_tokens == 77);
      return error.status().code();
    }
    return StatusCode::kOk;
  };
  CHECK(refusal(make_request({}, 1)) == StatusCode::kArgument);
  CHECK(refusal(make_request(make_prompt(16, 1, kVocabulary), 1)) == StatusCode::kContext);
  CHECK(refusal(make_request({1}, 1)) == StatusCode::kOk);
  CHECK(refusal(make_request({2}, 1)) == StatusCode::kOk);
  CHECK(refusal(make_request({3}, 1)) == StatusCode::kCapacity);
  SchedulerStats stats = scheduler.stats();
  CHECK(stats.n_rejected == 3);
  CHECK(stats.n_submitted == 2);
  CHECK(stats.n_queued == 2);
  SchedulerDriver driver(scheduler);
  driver.run();
  CHECK(scheduler.submit(make_request({3}, 1), nullptr) == 3);
}

TEST_CASE("higher priority gets the slot first and equal priority the earlier request") {
  FakeEngine engine(1, 16, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(1, 8, kVocabulary));
  SchedulerDriver driver(scheduler);
  std::vector<uint64_t> ids;
  for (const int32_t priority : {0, 5, -3, 5, 0}) {
    RequestOptions request = make_request({1, 2}, 1);
    request.priority = priority;
    ids.push_back(scheduler.submit(request, nullptr));
  }
  std::vector<uint64_t> order;
  for (int i = 0; i < 5; ++i) {
    REQUIRE(scheduler.step(false, nullptr).is_ok());
    for (const Event &event : scheduler.take_events(100)) {
      if (event.kind == EventKind::kStarted) order.push_back(event.request);
    }
  }
  CHECK(order == std::vector<uint64_t>{ids[1], ids[3], ids[0], ids[4], ids[2]});
}

TEST_CASE("decoding requests get a token in every step while a long prompt is read") {
  FakeEngine engine(4, 200, kVocabulary);
  SchedulerOptions options = make_options(4, 16, kVocabulary);
  options.decode_reserve = 6;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  SchedulerDriver driver(scheduler);
  std::vector<uint64_t> decoders;
  for (uint64_t i = 0; i < 3; ++i) {
    decoders.push_back(scheduler.submit(make_request(make_prompt(3, i, kVocabulary), 40), nullptr));
  }
  driver.step();
  const RequestOptions long_request = make_request(make_prompt(150, 9, kVocabulary), 5);
  const uint64_t reader = scheduler.submit(long_request, nullptr);
  for (int i = 0; i < 15; ++i) {
    const StepResult result = driver.step();
    CHECK(result.n_decode_rows == 3);
    CHECK(result.n_prefill_rows == 10);
  }
  driver.run();
  for (const uint64_t id : decoders) {
    const std::vector<uint64_t> &steps = driver.outcome(id).token_steps;
    for (size_t i = 1; i < steps.size(); ++i) REQUIRE(steps[i] == steps[i - 1] + 1);
  }
  CHECK(driver.outcome(reader).tokens == run_alone(long_request, 200).tokens);
}

TEST_CASE("more decoding requests than rows take turns and still give their own tokens") {
  FakeEngine engine(7, 64, kVocabulary);
  SchedulerOptions options = make_options(7, 3, kVocabulary);
  options.max_logits_rows = 2;
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  SchedulerDriver driver(scheduler);
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 7; ++i) ids.push_back(scheduler.submit(random_request(i), nullptr));
  driver.run();
  for (uint64_t i = 0; i < 7; ++i) {
    CHECK(driver.outcome(ids[i]).tokens == run_alone(random_request(i)).tokens);
  }
}

TEST_CASE("requests that join and leave over all slot counts give what they give alone") {
  for (const uint32_t n_slots : {1u, 2u, 4u, 8u}) {
    FakeEngine engine(n_slots, 64, kVocabulary);
    SchedulerOptions options = make_options(n_slots, 11, kVocabulary);
    options.prefill_chunk = 5;
    Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
    SchedulerDriver driver(scheduler);
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 40; ++i) {
      ids.push_back(scheduler.submit(random_request(i % 25), nullptr));
      if (i % 3 != 0) driver.step();
    }
    driver.run();
    for (uint64_t i = 0; i < 40; ++i) {
      const Outcome alone = run_alone(random_request(i % 25));
      CAPTURE(n_slots, i);
      REQUIRE(driver.outcome(ids[i]).tokens == alone.tokens);
      REQUIRE(driver.outcome(ids[i]).n_finished == 1);
    }
    // Later ones met their own prompts again.
    CHECK(scheduler.stats().n_reused_positions > 0);
  }
}

TEST_CASE("the next turn of a conversation computes only what is new") {
  FakeEngine engine(3, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(3, 64, kVocabulary));
  SchedulerDriver driver(scheduler);
  std::vector<std::vector<int32_t>> turns;
  for (uint64_t i = 0; i < 3; ++i) turns.push_back(make_prompt(10, i, kVocabulary));
  for (int round = 0; round < 3; ++round) {
    for (std::vector<int32_t> &turn : turns) {
      const uint64_t id = scheduler.submit(make_request(turn, 4), nullptr);
      driver.run();
      const Outcome &outcome = driver.outcome(id);
      REQUIRE(outcome.tokens == run_alone(make_request(turn, 4)).tokens);
      // All but the last generated token and the two of the new turn.
      CHECK(outcome.last.n_prompt_reused == (round == 0 ? 0 : turn.size() - 3));
      turn.insert(turn.end(), outcome.tokens.begin(), outcome.tokens.end());
      turn.push_back(5);
      turn.push_back(6);
    }
  }
}

TEST_CASE("a prefix is copied from a request that still runs") {
  FakeEngine engine(2, 64, kVocabulary);
  Scheduler scheduler(*engine.model, engine.pool, nullptr, make_options(2, 64, kVocabulary));
  SchedulerDriver driver(scheduler);
  std::vector<int32_t> prompt = make_prompt(20, 1, kVocabulary);
  const uint64_t first = scheduler.submit(make_request(prompt, 30), nullptr);
  driver.step();
  prompt.resize(15);
  prompt.push_back(63);
  const uint64_t second = scheduler.submit(make_request(prompt, 8), nullptr);
  driver.run();
  CHECK(driver.outcome(second).last.n_prompt_reused == 15);
  CHECK(driver.outcome(second).tokens == run_alone(make_request(prompt, 8)).tokens);
  CHECK(driver.outcome(first).tokens ==
        run_alone(make_request(make_prompt(20, 1, kVocabulary), 30)).tokens);
}

TEST_CASE("stop ids end a request without being part of its output") {
  fake_controls() = FakeControls();
  const std::vector<int32_t> prompt = {1, 2, 3};
  const std::vector<int32_t> tokens = run_alone(make_request(prompt, 8)).tokens;
  // The first token that none before it equals.
  size_t n = 2;
  while (std::count(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n), tokens[n]) != 0)
    ++n;
  REQUIRE(n < tokens.size());

  FakeEngine engine(1, 64, kVocabulary);
  SchedulerOptions options = make_options(1, 8, kVocabulary);
  options.model_stop_ids = {tokens[n]};
  Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
  SchedulerDriver driver(scheduler);
  const uint64_t stopped = scheduler.submit(make_request(prompt, 8), nullptr);
  RequestOptions ignoring = make_request(prompt, 8);
  ignoring.ignores_model_stops = true;
  const uint64_t unstopped = scheduler.submit(ignoring, nullptr);
  ignoring.stop_ids = {tokens[0]};
  const uint64_t at_once = scheduler.submit(ignoring, nullptr);
  driver.run();
  CHECK(driver.outcome(stopped).finish == FinishReason::kStopToken);
  CHECK(driver.outcome(stopped).tokens ==
        std::vector<int32_t>(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n)));
  CHECK(driver.outcome(unstopped).tokens == tokens);
  CHECK(driver.outcome(at_once).tokens.empty());
  CHECK(driver.outcome(at_once).finish == FinishReason::kStopToken);
  CHECK(scheduler.stats().n_finished == 2);
}

TEST_CASE("scheduler options outside their range are refused and take no slot") {
  FakeEngine engine(2, 16, kVocabulary);
  const auto refusal = [&](auto change) {
    SchedulerOptions options = make_options(2, 8, kVocabulary);
    change(options);
    try {
      const Scheduler scheduler(*engine.model, engine.pool, nullptr, options);
    } catch (const Error &error) {
      CHECK(engine.pool.n_taken() == 0);
      return error.status().code();
    }
    return StatusCode::kOk;
  };
  using O = SchedulerOptions;
  CHECK(refusal([](O &o) { o.n_slots = 0; }) == StatusCode::kArgument);
  CHECK(refusal([](O &o) { o.n_slots = 3; }) == StatusCode::kCapacity);
  CHECK(refusal([](O &o) { o.row_budget = 9; }) == StatusCode::kArgument);
  CHECK(refusal([](O &o) { o.prefill_chunk = 9; }) == StatusCode::kArgument);
  CHECK(refusal([](O &o) { o.decode_reserve = 8; }) == StatusCode::kArgument);
  CHECK(refusal([](O &o) { o.max_logits_rows = 0; }) == StatusCode::kArgument);
  CHECK(refusal([](O &o) { o.max_queued = 0; }) == StatusCode::kArgument);
  CHECK(refusal([](O &) {}) == StatusCode::kOk);
  CHECK(engine.pool.n_taken() == 0);
}

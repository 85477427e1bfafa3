// SPDX-License-Identifier: Apache-2.0
//
// The scheduler over real snapshots: every answer equals that of the same request alone.

#include <algorithm>

#include "tests/runtime/real_engine.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kCapacity = 80;

// Mixed lengths, half of them sampled; every third shares a long start with others.
RequestOptions mixed_request(uint64_t seed, uint32_t n_token_ids) {
  const auto draw = [seed](uint64_t what, uint32_t below) {
    return static_cast<uint32_t>(draw_uniform(seed + 1000, what) * below);
  };
  std::vector<int32_t> prompt = make_prompt(1 + draw(1, 30), seed, n_token_ids);
  if (seed % 3 == 0) {
    const std::vector<int32_t> shared = make_prompt(25, 77, n_token_ids);
    prompt.insert(prompt.begin(), shared.begin(), shared.end());
  }
  RequestOptions options = make_request(std::move(prompt), 1 + draw(2, 12));
  options.sampler.seed = seed;
  if (seed % 2 == 1) {
    options.sampler.temperature = 1.5f;
    options.sampler.top_k = 20;
    options.sampler.repetition_penalty = 1.2f;
  }
  return options;
}

std::vector<int32_t> run_alone(RealEngine &engine, const RequestOptions &request) {
  const uint32_t n_token_ids = engine.vocabulary_size();
  Scheduler scheduler(engine.engine.model(), engine.pool, nullptr,
                      make_options(1, 64, n_token_ids));
  SchedulerDriver driver(scheduler);
  const uint64_t id = scheduler.submit(request, nullptr);
  driver.run();
  REQUIRE(driver.outcome(id).finish == FinishReason::kLength);
  return driver.outcome(id).tokens;
}

}  // namespace

TEST_CASE("tokens are the same alone and with 1, 3 and 7 others that join and leave") {
  RealEngine engine(golden_path("glm_moe_dsa-sparse"), 8, kCapacity, ActivationMode::kInteger);
  const uint32_t n_token_ids = engine.vocabulary_size();
  RequestOptions request = mixed_request(3, n_token_ids);
  request.max_tokens = 24;
  const std::vector<int32_t> expected = run_alone(engine, request);
  for (const uint32_t n_others : {1u, 3u, 7u}) {
    SchedulerOptions options = make_options(n_others + 1, 24, n_token_ids);
    options.prefill_chunk = 9;
    Scheduler scheduler(engine.engine.model(), engine.pool, nullptr, options);
    SchedulerDriver driver(scheduler);
    const uint64_t id = scheduler.submit(request, nullptr);
    uint64_t seed = 100;
    while (driver.outcome(id).n_finished == 0) {
      if (scheduler.stats().n_active + scheduler.stats().n_queued <= n_others) {
        const uint64_t other = scheduler.submit(mixed_request(++seed, n_token_ids), nullptr);
        if (seed % 4 == 0) REQUIRE(scheduler.cancel(other).is_ok());
      }
      driver.step();
    }
    CAPTURE(n_others);
    CHECK(driver.outcome(id).tokens == expected);
  }
}

TEST_CASE("a soak of mixed lengths gives every request its solo answer") {
  for (const char *name : {"glm_moe_dsa-sparse", "glm_moe_dsa-int4g64"}) {
    RealEngine engine(golden_path(name), 4, kCapacity, ActivationMode::kInteger);
    const uint32_t n_token_ids = engine.vocabulary_size();
    SchedulerOptions options = make_options(3, 20, n_token_ids);
    options.prefill_chunk = 7;
    Scheduler scheduler(engine.engine.model(), engine.pool, nullptr, options);
    SchedulerDriver driver(scheduler);
    constexpr uint64_t kRequests = 60;
    for (uint64_t i = 0; i < kRequests; ++i) {
      scheduler.submit(mixed_request(i % 40, n_token_ids), nullptr);
      if (i % 2 == 0) driver.step();
    }
    driver.run();
    CHECK(scheduler.stats().n_reused_positions > 0);
    for (uint64_t i = 0; i < kRequests; ++i) {
      CAPTURE(name, i);
      REQUIRE(driver.outcome(i + 1).tokens ==
              run_alone(engine, mixed_request(i % 40, n_token_ids)));
    }
  }
}

TEST_CASE("reading a prompt in chunks of 1, 3, 7 or whole gives the same answer") {
  RealEngine engine(example_path("colibri-tiny-packed"), 1, 128, ActivationMode::kInteger);
  const uint32_t n_token_ids = engine.vocabulary_size();
  std::vector<std::vector<int32_t>> answers;
  for (const uint32_t chunk : {1u, 3u, 7u, 64u}) {
    SchedulerOptions options = make_options(1, 64, n_token_ids);
    options.prefill_chunk = chunk;
    Scheduler scheduler(engine.engine.model(), engine.pool, nullptr, options);
    SchedulerDriver driver(scheduler);
    const uint64_t id = scheduler.submit(make_request(make_prompt(60, 5, 2000), 30), nullptr);
    driver.run();
    answers.push_back(driver.outcome(id).tokens);
    CHECK(answers.back().size() == 30);
    CHECK(answers.back() == answers.front());
  }
}

TEST_CASE("the trained model's text through the scheduler is that of its tokens") {
  RealEngine engine(example_path("colibri-tiny-packed"), 2, 128, ActivationMode::kInteger);
  const auto tokenizer = Tokenizer::open(example_path("colibri-tiny-packed"));
  Scheduler scheduler(engine.engine.model(), engine.pool, tokenizer.get(),
                      make_options(2, 64, tokenizer->size()));
  SchedulerDriver driver(scheduler);
  std::vector<int32_t> prompt;
  tokenizer->encode("Once upon a time", ControlTokens::kPlain, &prompt);
  const uint64_t id = scheduler.submit(make_request(prompt, 60), nullptr);
  RequestOptions stopping = make_request(prompt, 60);
  stopping.stop_strings = {" was "};
  const uint64_t stopped = scheduler.submit(stopping, nullptr);
  driver.run();
  const Outcome &outcome = driver.outcome(id);
  REQUIRE(outcome.tokens.size() == 60);
  CHECK(outcome.text == tokenizer->decode(outcome.tokens.data(), outcome.tokens.size(), true));
  // A story of the training corpus: letters and spaces, no replacement characters.
  CHECK(outcome.text.find("\xEF\xBF\xBD") == std::string::npos);
  const size_t place = outcome.text.find(" was ");
  REQUIRE(place != std::string::npos);
  CHECK(driver.outcome(stopped).finish == FinishReason::kStopString);
  CHECK(driver.outcome(stopped).text == outcome.text.substr(0, place));
}

// SPDX-License-Identifier: Apache-2.0
//
// What the scheduler asks of the allocator: nothing in steady decode, and nothing kept from request
// to request.

#include <malloc.h>

#include "tests/base/allocation_counter.h"
#include "tests/runtime/real_engine.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

TEST_CASE("steady decode with text and stop strings allocates nothing") {
  RealEngine engine(example_path("colibri-tiny-packed"), 4, 256, ActivationMode::kInteger);
  const auto tokenizer = Tokenizer::open(example_path("colibri-tiny-packed"));
  Scheduler scheduler(engine.engine.model(), engine.pool, tokenizer.get(),
                      make_options(4, 64, tokenizer->size()));
  for (uint64_t i = 0; i < 4; ++i) {
    RequestOptions request = make_request(make_prompt(5 + i, i, 2000), 200);
    request.ignores_model_stops = true;
    request.wants_logprobs = true;
    request.stop_strings = {"no such text in a story", "Once upon a time there was nobody"};
    if (i % 2 == 1) {
      request.sampler.temperature = 1.0f;
      request.sampler.top_p = 0.9f;
      request.sampler.repetition_penalty = 1.1f;
    }
    scheduler.submit(std::move(request), nullptr);
  }
  StepResult result;
  size_t n_events = 0;
  const auto step = [&] {
    if (!scheduler.step(false, &result).is_ok()) return;
    for (auto events = scheduler.take_events(8); !events.empty();
         events = scheduler.take_events(8)) {
      n_events += events.size();
    }
  };
  for (int i = 0; i < 20; ++i) step();
  REQUIRE(result.n_decode_rows == 4);
  n_events = 0;
  const size_t before = count_allocations();
  for (int i = 0; i < 100; ++i) step();
  const size_t n_allocations = count_allocations() - before;
  CHECK(n_allocations == 0);
  CHECK(n_events == 400);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a thousand short requests leave the memory in use as it was") {
  RealEngine engine(golden_path("glm_moe_dsa-sparse"), 2, 32, ActivationMode::kInteger, 1);
  const uint32_t n_token_ids = engine.vocabulary_size();
  Scheduler scheduler(engine.engine.model(), engine.pool, nullptr,
                      make_options(2, 16, n_token_ids));
  const auto run = [&](uint64_t n_requests) {
    for (uint64_t i = 0; i < n_requests; ++i) {
      scheduler.submit(make_request(make_prompt(1 + i % 5, i, n_token_ids), 2), nullptr);
      while (scheduler.stats().n_active + scheduler.stats().n_queued > 0) {
        if (!scheduler.step(false, nullptr).is_ok()) return;
        scheduler.take_events(100);
      }
    }
  };
  run(20);
  const size_t before = mallinfo2().uordblks;
  run(1000);
  const size_t after = mallinfo2().uordblks;
  // A request that stayed behind would be hundreds of bytes.
  CHECK(after <= before + 16 * 1024);
  CHECK(scheduler.stats().n_length == 1020);
}
#endif

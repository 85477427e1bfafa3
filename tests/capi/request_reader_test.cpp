// SPDX-License-Identifier: Apache-2.0
//
// Options of schedulers and requests: everything outside its range is refused by name, and nothing
// was queued.

#include <functional>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

const std::vector<int32_t> kPrompt = {1, 2, 3};

std::string submit_refusal(colibri_scheduler *scheduler, colibri_status expected,
                           const std::function<void(colibri_request_options &)> &change) {
  colibri_request_options options = request_of(kPrompt, 4);
  change(options);
  colibri_request_id request = 77;
  uint32_t max_tokens = 77;
  const std::string message = message_of(expected, [&](colibri_error *error) {
    return colibri_scheduler_submit(scheduler, &options, &request, &max_tokens, error);
  });
  CHECK(request == 77);
  CHECK(max_tokens == 77);
  return message;
}

std::string sampler_refusal(colibri_scheduler *scheduler,
                            const std::function<void(colibri_sampler &)> &change) {
  colibri_sampler sampler;
  colibri_sampler_init(&sampler, sizeof(sampler));
  change(sampler);
  return submit_refusal(scheduler, COLIBRI_E_ARGUMENT,
                        [&](colibri_request_options &options) { options.sampler = &sampler; });
}

}  // namespace

TEST_CASE("scheduler options outside their range are refused by name") {
  const Model model = open_tiny();
  const auto refusal = [&](const std::function<void(colibri_scheduler_options &)> &change) {
    colibri_scheduler_options options;
    colibri_scheduler_options_init(&options, sizeof(options));
    change(options);
    colibri_scheduler *scheduler = nullptr;
    const std::string message = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return colibri_scheduler_create(model.get(), &options, &scheduler, error);
    });
    CHECK(scheduler == nullptr);
    return message;
  };
  using Options = colibri_scheduler_options;
  CHECK_THAT(refusal([](Options &o) { o.n_slots = 3; }), Contains("n_slots is 3; must be 1..2"));
  CHECK_THAT(refusal([](Options &o) { o.row_budget = 17; }),
             Contains("row_budget is 17; must be 1..16"));
  CHECK_THAT(refusal([](Options &o) {
               o.row_budget = 8;
               o.prefill_chunk = 9;
             }),
             Contains("prefill_chunk is 9; must be 1..8"));
  CHECK_THAT(refusal([](Options &o) { o.decode_reserve = 16; }),
             Contains("decode_reserve is 16; must be 0..15"));
  CHECK_THAT(refusal([](Options &o) { o.max_queued = (1u << 20) + 1; }), Contains("max_queued"));
}

TEST_CASE("a scheduler without a free slot is refused") {
  const Model model = open_tiny();
  const Slot first = make_slot(model.get());
  const Slot second = make_slot(model.get());
  colibri_scheduler *scheduler = nullptr;
  CHECK(colibri_scheduler_create(model.get(), nullptr, &scheduler, nullptr) == COLIBRI_E_CAPACITY);
}

TEST_CASE("request options outside their range are refused by name") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  using Options = colibri_request_options;
  const auto refusal = [&](const std::function<void(Options &)> &change) {
    return submit_refusal(scheduler.get(), COLIBRI_E_ARGUMENT, change);
  };
  CHECK_THAT(refusal([](Options &o) { o.prompt_ids = nullptr; }), Contains("prompt_ids"));
  CHECK_THAT(refusal([](Options &o) { o.n_prompt_ids = 0; }), Contains("n_prompt_ids is 0"));
  const std::vector<int32_t> wrong = {1, 2048};
  CHECK_THAT(refusal([&](Options &o) {
               o.prompt_ids = wrong.data();
               o.n_prompt_ids = 2;
             }),
             Contains("prompt_ids[1] is 2048; must be 0..2047"));
  CHECK_THAT(refusal([&](Options &o) {
               o.stop_ids = wrong.data();
               o.n_stop_ids = 2;
             }),
             Contains("stop_ids[1] is 2048"));
  CHECK_THAT(refusal([](Options &o) { o.n_stop_ids = 1; }), Contains("stop_ids is NULL"));
  CHECK_THAT(refusal([](Options &o) { o.n_stop_ids = SIZE_MAX; }), Contains("n_stop_ids"));
  CHECK_THAT(refusal([](Options &o) { o.n_stop_strings = 1; }), Contains("stop_strings is NULL"));
  CHECK_THAT(refusal([](Options &o) { o.n_stop_strings = 65; }), Contains("n_stop_strings is 65"));
  CHECK_THAT(refusal([](Options &o) { o.ignore_model_stops = 2; }),
             Contains("ignore_model_stops is 2"));
  CHECK_THAT(refusal([](Options &o) { o.wants_logprobs = 9; }), Contains("wants_logprobs is 9"));
  CHECK_THAT(refusal([](Options &o) { o.reserved = 1; }), Contains("reserved is 1"));
  const std::string long_text(1025, 'x');
  for (const char *text : {static_cast<const char *>(nullptr), "", long_text.c_str()}) {
    CHECK_THAT(refusal([&](Options &o) {
                 o.stop_strings = &text;
                 o.n_stop_strings = 1;
               }),
               Contains("stop_strings[0]"));
  }
}

TEST_CASE("sampler fields outside their range are refused by name") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  using Sampler = colibri_sampler;
  const auto refusal = [&](const std::function<void(Sampler &)> &change) {
    return sampler_refusal(scheduler.get(), change);
  };
  CHECK_THAT(refusal([](Sampler &s) { s.temperature = -1; }), Contains("temperature"));
  CHECK_THAT(refusal([](Sampler &s) { s.temperature = 101; }), Contains("temperature"));
  CHECK_THAT(refusal([](Sampler &s) { s.temperature = 1e-4f; }), Contains("temperature"));
  CHECK_THAT(refusal([](Sampler &s) { s.top_p = 1.5f; }), Contains("top_p"));
  CHECK_THAT(refusal([](Sampler &s) { s.min_p = -0.5f; }), Contains("min_p"));
  CHECK_THAT(refusal([](Sampler &s) { s.repetition_penalty = -2; }),
             Contains("repetition_penalty"));
  CHECK_THAT(refusal([](Sampler &s) { s.reserved = 1; }), Contains("sampler.reserved is 1"));
  CHECK_THAT(refusal([](Sampler &s) { s.struct_size = 3; }), Contains("sampler->struct_size is 3"));
}

TEST_CASE("a prompt that no slot can hold is refused with all three counts and never cut") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> too_long(65, 1);
  CHECK_THAT(submit_refusal(scheduler.get(), COLIBRI_E_CONTEXT,
                            [&](colibri_request_options &options) {
                              options.prompt_ids = too_long.data();
                              options.n_prompt_ids = too_long.size();
                            }),
             Contains("65") && Contains("4") && Contains("64"));
  // The count alone decides: the array behind it is not read.
  submit_refusal(scheduler.get(), COLIBRI_E_CONTEXT,
                 [&](colibri_request_options &options) { options.n_prompt_ids = SIZE_MAX; });
}

TEST_CASE("max_tokens is clamped to the context and the effective number is returned") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const auto effective = [&](uint32_t wanted) {
    const colibri_request_options options = request_of(kPrompt, wanted);
    colibri_request_id request = 0;
    uint32_t max_tokens = 0;
    REQUIRE(colibri_scheduler_submit(scheduler.get(), &options, &request, &max_tokens, nullptr) ==
            COLIBRI_OK);
    return max_tokens;
  };
  CHECK(effective(4) == 4);
  const uint32_t most = effective(0);
  CHECK(most >= 61);
  CHECK(most <= 62);  // the last token needs no position of its own
  CHECK(effective(UINT32_MAX) == most);
}

TEST_CASE("stop strings without a tokenizer are refused") {
  const Model model = open_model(golden_model("glm_moe_dsa-int4g64"), small_options());
  const Scheduler scheduler = make_scheduler(model.get());
  const char *text = "x";
  CHECK_THAT(submit_refusal(scheduler.get(), COLIBRI_E_ARGUMENT,
                            [&](colibri_request_options &options) {
                              options.stop_strings = &text;
                              options.n_stop_strings = 1;
                            }),
             Contains("tokenizer"));
}

// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/scheduler.h: what the boundary adds to the runtime's scheduler, and the
// whole way of a request.

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

const std::vector<int32_t> kPrompt = {11, 12, 13, 14, 15};

std::vector<colibri_event> take(colibri_scheduler *scheduler) {
  std::vector<colibri_event> events(64);
  size_t n_events = 0;
  REQUIRE(colibri_scheduler_next_events(scheduler, events.data(), sizeof(colibri_event),
                                        events.size(), &n_events, nullptr) == COLIBRI_OK);
  events.resize(n_events);
  return events;
}

colibri_step_result step(colibri_scheduler *scheduler) {
  colibri_step_result result{};
  result.struct_size = sizeof(result);
  REQUIRE(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, &result, nullptr) == COLIBRI_OK);
  return result;
}

// Events of each request until none is left in the scheduler.
std::map<colibri_request_id, std::vector<colibri_event>> drain(colibri_scheduler *scheduler) {
  std::map<colibri_request_id, std::vector<colibri_event>> events;
  for (int i = 0; i < 10000; ++i) {
    const colibri_step_result result = step(scheduler);
    for (const colibri_event &event : take(scheduler)) events[event.request].push_back(event);
    if (result.n_active + result.n_queued == 0) return events;
  }
  FAIL("requests did not end");
  return events;
}

}  // namespace

TEST_CASE("a request tells its whole story in events") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  colibri_request_options options = request_of(kPrompt, 3);
  options.user_data = 0x1122334455667788;
  options.wants_logprobs = 1;
  const colibri_request_id request = submit(scheduler.get(), options);
  CHECK(request == 1);
  const colibri_step_result first = step(scheduler.get());
  CHECK(first.struct_size == sizeof(first));
  CHECK(first.n_rows == 5);
  CHECK(first.n_prefill_rows == 5);
  CHECK(first.n_active == 1);
  CHECK(first.n_events >= 2);
  CHECK(first.elapsed_ns > 0);
  const std::vector<colibri_event> events = drain(scheduler.get())[request];
  REQUIRE(!events.empty());
  std::vector<int32_t> kinds;
  for (const colibri_event &event : events) {
    kinds.push_back(event.kind);
    CHECK(event.user_data == 0x1122334455667788);
    CHECK(event.n_prompt == 5);
    CHECK((event.kind == COLIBRI_EVENT_TOKEN) == (event.token >= 0));
    if (event.kind == COLIBRI_EVENT_TOKEN) CHECK(event.logprob < 0);
  }
  CHECK(kinds.front() == COLIBRI_EVENT_STARTED);
  CHECK(std::count(kinds.begin(), kinds.end(), COLIBRI_EVENT_PREFILL) >= 1);
  CHECK(std::count(kinds.begin(), kinds.end(), COLIBRI_EVENT_TOKEN) == 3);
  CHECK(kinds.back() == COLIBRI_EVENT_FINISHED);
  CHECK(std::count(kinds.begin(), kinds.end(), COLIBRI_EVENT_FINISHED) == 1);
  CHECK(events.back().finish == COLIBRI_FINISH_LENGTH);
  CHECK(events.back().status == COLIBRI_OK);
  CHECK(events.back().message == nullptr);
  CHECK(events.back().n_generated == 3);
  CHECK(events.back().n_prompt_done == 5);
}

TEST_CASE("the scheduler chooses the largest logit of the low level, token by token") {
  colibri_model_options options = small_options();
  options.n_engines = 2;
  const Model model = open_model(tiny_model(), options);
  const Scheduler scheduler = [&] {
    colibri_scheduler_options one;
    colibri_scheduler_options_init(&one, sizeof(one));
    one.n_slots = 1;
    colibri_scheduler *made = nullptr;
    REQUIRE(colibri_scheduler_create(model.get(), &one, &made, nullptr) == COLIBRI_OK);
    return Scheduler(made);
  }();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  std::vector<int32_t> expected;
  std::vector<int32_t> next = kPrompt;
  for (int i = 0; i < 12; ++i) {
    const std::vector<float> logits = decode(batch.get(), slot.get(), next);
    next = {static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())};
    expected.push_back(next[0]);
  }
  colibri_request_options request = request_of(kPrompt, 12);
  request.ignore_model_stops = 1;
  CHECK(run_to_end(scheduler.get(), submit(scheduler.get(), request)).tokens == expected);
}

TEST_CASE("the same seed draws the same tokens and the text of events is their text") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  colibri_sampler sampler;
  colibri_sampler_init(&sampler, sizeof(sampler));
  sampler.temperature = 1.0f;
  sampler.top_k = 50;
  sampler.top_p = 0.9f;
  sampler.seed = 7;
  colibri_request_options options = request_of(kPrompt, 20);
  options.sampler = &sampler;
  const Outcome first = run_to_end(scheduler.get(), submit(scheduler.get(), options));
  const Outcome again = run_to_end(scheduler.get(), submit(scheduler.get(), options));
  CHECK(first.tokens == again.tokens);
  CHECK(again.n_prompt_reused > 0);
  sampler.seed = 8;
  CHECK(run_to_end(scheduler.get(), submit(scheduler.get(), options)).tokens != first.tokens);
  const colibri_tokenizer *tokenizer = colibri_model_tokenizer(model.get());
  CHECK(first.text ==
        read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
          return colibri_tokenizer_decode(tokenizer, first.tokens.data(), first.tokens.size(), 1,
                                          buffer, capacity, length, error);
        }));
}

TEST_CASE("logits wider than the tokenizer: the rest is never sampled") {
  const ModelCopy copy(tiny_model(), "colibri_narrow_tokenizer");
  std::ofstream(copy.file("tokenizer.json"), std::ios::trunc)
      << R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2},"merges":[]},"added_tokens":[],
            "decoder":{"type":"Fuse"}})";
  const Model model = open_model(copy.path(), small_options());
  const Scheduler scheduler = make_scheduler(model.get());
  colibri_sampler sampler;
  colibri_sampler_init(&sampler, sizeof(sampler));
  sampler.temperature = 100.0f;
  colibri_request_options options = request_of(kPrompt, 40);
  options.sampler = &sampler;
  options.ignore_model_stops = 1;
  const Outcome outcome = run_to_end(scheduler.get(), submit(scheduler.get(), options));
  CHECK(outcome.tokens.size() == 40);
  for (const int32_t token : outcome.tokens) CHECK(token < 3);
}

TEST_CASE("stop ids and stop strings end a request and are not part of the output") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const Outcome free = generate(scheduler.get(), kPrompt, 12);
  REQUIRE(free.tokens.size() == 12);
  colibri_request_options options = request_of(kPrompt, 12);
  const int32_t stop = free.tokens[5];
  options.stop_ids = &stop;
  options.n_stop_ids = 1;
  const Outcome by_id = run_to_end(scheduler.get(), submit(scheduler.get(), options));
  CHECK(by_id.finish == COLIBRI_FINISH_STOP_TOKEN);
  CHECK(by_id.tokens.size() <= 5);
  options = request_of(kPrompt, 12);
  const std::string text = free.text.substr(free.text.size() / 2, 3);
  const char *texts[] = {text.c_str()};
  options.stop_strings = texts;
  options.n_stop_strings = 1;
  const Outcome by_text = run_to_end(scheduler.get(), submit(scheduler.get(), options));
  CHECK(by_text.finish == COLIBRI_FINISH_STOP_STRING);
  CHECK(by_text.text == free.text.substr(0, free.text.find(text)));
}

TEST_CASE("requests that are cancelled, stopped or paused leave others untouched") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const Outcome alone = generate(scheduler.get(), kPrompt, 10);
  const colibri_request_id kept = submit(scheduler.get(), request_of(kPrompt, 10));
  const std::vector<int32_t> other = {21, 22, 23};
  const colibri_request_id stopped = submit(scheduler.get(), request_of(other, 30));
  const colibri_request_id cancelled = submit(scheduler.get(), request_of(other, 30));  // queued
  step(scheduler.get());
  step(scheduler.get());
  CHECK(colibri_scheduler_pause(scheduler.get(), kept, nullptr) == COLIBRI_OK);
  CHECK(colibri_scheduler_stop(scheduler.get(), stopped, nullptr) == COLIBRI_OK);
  CHECK(colibri_scheduler_cancel(scheduler.get(), cancelled, nullptr) == COLIBRI_OK);
  step(scheduler.get());
  CHECK(colibri_scheduler_resume(scheduler.get(), kept, nullptr) == COLIBRI_OK);
  auto events = drain(scheduler.get());
  CHECK(events[stopped].back().finish == COLIBRI_FINISH_STOPPED);
  CHECK(events[cancelled].back().finish == COLIBRI_FINISH_CANCELLED);
  CHECK(events[kept].back().finish == COLIBRI_FINISH_LENGTH);
  std::vector<int32_t> tokens;
  for (const colibri_event &event : events[kept]) {
    if (event.kind == COLIBRI_EVENT_TOKEN) tokens.push_back(event.token);
  }
  CHECK(tokens == alone.tokens);
  for (const colibri_request_id id : {kept, stopped, cancelled, colibri_request_id{999}}) {
    CHECK(colibri_scheduler_cancel(scheduler.get(), id, nullptr) == COLIBRI_E_NOT_FOUND);
    CHECK(colibri_scheduler_stop(scheduler.get(), id, nullptr) == COLIBRI_E_NOT_FOUND);
    CHECK(colibri_scheduler_pause(scheduler.get(), id, nullptr) == COLIBRI_E_NOT_FOUND);
    CHECK(colibri_scheduler_resume(scheduler.get(), id, nullptr) == COLIBRI_E_NOT_FOUND);
  }
}

TEST_CASE("a full queue refuses one more request and keeps the others") {
  const Model model = open_tiny();
  colibri_scheduler_options options;
  colibri_scheduler_options_init(&options, sizeof(options));
  options.max_queued = 2;
  colibri_scheduler *made = nullptr;
  REQUIRE(colibri_scheduler_create(model.get(), &options, &made, nullptr) == COLIBRI_OK);
  const Scheduler scheduler(made);
  submit(scheduler.get(), request_of(kPrompt, 2));
  submit(scheduler.get(), request_of(kPrompt, 2));
  const colibri_request_options third = request_of(kPrompt, 2);
  colibri_request_id request = 0;
  CHECK(colibri_scheduler_submit(scheduler.get(), &third, &request, nullptr, nullptr) ==
        COLIBRI_E_CAPACITY);
  CHECK(request == 0);
  CHECK(drain(scheduler.get()).size() == 2);
}

TEST_CASE("a step without work returns at once and a wrong mode is refused") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const colibri_step_result result = step(scheduler.get());
  CHECK(result.n_rows == 0);
  CHECK(result.n_active == 0);
  CHECK(take(scheduler.get()).empty());
  CHECK(colibri_scheduler_step(scheduler.get(), 2, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_scheduler_step(scheduler.get(), -1, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  // A wake before the sleep is not lost.
  CHECK(colibri_scheduler_wake(scheduler.get(), nullptr) == COLIBRI_OK);
  CHECK(colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_WAIT, nullptr, nullptr) == COLIBRI_OK);
}

TEST_CASE("events go into structs of the caller's size") {
  struct Later {
    colibri_event known;
    uint64_t field;
  };
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  submit(scheduler.get(), request_of(kPrompt, 2));
  step(scheduler.get());
  std::vector<Later> events(4);
  std::memset(events.data(), 0x5a, events.size() * sizeof(Later));
  size_t n_events = 0;
  CHECK(colibri_scheduler_next_events(scheduler.get(), &events[0].known, sizeof(colibri_event) - 16,
                                      4, &n_events, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_scheduler_next_events(scheduler.get(), &events[0].known, 4097, 4, &n_events,
                                      nullptr) == COLIBRI_E_ARGUMENT);
  REQUIRE(colibri_scheduler_next_events(scheduler.get(), &events[0].known, sizeof(Later), 2,
                                        &n_events, nullptr) == COLIBRI_OK);
  REQUIRE(n_events == 2);
  for (size_t i = 0; i < n_events; ++i) {
    CHECK(events[i].known.request == 1);
    CHECK(events[i].field == 0);
  }
  CHECK(events[2].field == 0x5a5a5a5a5a5a5a5a);
  CHECK(colibri_scheduler_next_events(scheduler.get(), nullptr, sizeof(colibri_event), 0, &n_events,
                                      nullptr) == COLIBRI_OK);
  CHECK(n_events == 0);
}

TEST_CASE("a model without tokenizer generates ids and no text") {
  const Model model = open_model(golden_model("glm_moe_dsa-int4g64"), small_options());
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> prompt = {1, 2, 3};
  colibri_request_options options = request_of(prompt, 4);
  options.ignore_model_stops = 1;
  submit(scheduler.get(), options);
  size_t n_tokens = 0;
  for (const auto &[request, events] : drain(scheduler.get())) {
    for (const colibri_event &event : events) {
      CHECK(event.text == nullptr);
      CHECK(event.text_bytes == 0);
      n_tokens += event.kind == COLIBRI_EVENT_TOKEN ? 1 : 0;
    }
  }
  CHECK(n_tokens == 4);
}

TEST_CASE("a scheduler with requests in every state can be destroyed") {
  const Model model = open_tiny();
  Scheduler scheduler = make_scheduler(model.get());
  for (int i = 0; i < 5; ++i) submit(scheduler.get(), request_of(kPrompt, 20));
  step(scheduler.get());
  CHECK(colibri_scheduler_pause(scheduler.get(), 2, nullptr) == COLIBRI_OK);
  step(scheduler.get());
  scheduler.reset();
  const Slot first = make_slot(model.get());  // all slots are free again
  const Slot second = make_slot(model.get());
  CHECK(colibri_kv_slot_length(first.get()) == 0);
}

TEST_CASE("two different models in one process do not influence each other") {
  const std::string golden = golden_model("glm_moe_dsa-int4g64");
  const auto alone = [](const std::string &path) {
    const Model model = open_model(path, small_options());
    const Scheduler scheduler = make_scheduler(model.get());
    return generate(scheduler.get(), {1, 2, 3}, 12).tokens;
  };
  const std::vector<int32_t> expected_tiny = alone(tiny_model());
  const std::vector<int32_t> expected_golden = alone(golden);
  const Model tiny = open_tiny();
  const Model other = open_model(golden, small_options());
  const Scheduler tiny_scheduler = make_scheduler(tiny.get());
  const Scheduler other_scheduler = make_scheduler(other.get());
  const std::vector<int32_t> prompt = {1, 2, 3};
  submit(tiny_scheduler.get(), request_of(prompt, 12));
  submit(other_scheduler.get(), request_of(prompt, 12));
  std::vector<int32_t> tiny_tokens;
  std::vector<int32_t> other_tokens;
  for (int i = 0; i < 20; ++i) {
    step(tiny_scheduler.get());
    step(other_scheduler.get());
    for (const colibri_event &event : take(tiny_scheduler.get())) {
      if (event.kind == COLIBRI_EVENT_TOKEN) tiny_tokens.push_back(event.token);
    }
    for (const colibri_event &event : take(other_scheduler.get())) {
      if (event.kind == COLIBRI_EVENT_TOKEN) other_tokens.push_back(event.token);
    }
  }
  CHECK(tiny_tokens == expected_tiny);
  CHECK(other_tokens == expected_golden);
}

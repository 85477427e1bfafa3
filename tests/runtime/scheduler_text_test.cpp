// SPDX-License-Identifier: Apache-2.0
//
// Text of events: whole characters, stop strings, what comes at the end. The stand-in model follows
// a script.

#include <string>

#include "tests/runtime/fake_model.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

const std::string kTokenizer =
    std::string(COLIBRI_TEST_DATA) + "/../../../examples/models/colibri-tiny/tokenizer.json";

// A model of the tokenizer's vocabulary that says a given text, whatever it is asked.
struct Speaker {
  explicit Speaker(const std::string &text)
      : tokenizer(Tokenizer::open(kTokenizer)), engine(1, 200, tokenizer->size()) {
    tokenizer->encode(text, ControlTokens::kPlain, &ids);
    // The only row of a prompt of one token has position 0.
    fake_controls().script = ids;
    scheduler = std::make_unique<Scheduler>(*engine.model, engine.pool, tokenizer.get(),
                                            make_options(1, 8, tokenizer->size()));
    driver = std::make_unique<SchedulerDriver>(*scheduler);
  }

  RequestOptions request(std::vector<std::string> stops = {}) const {
    RequestOptions options = make_request({0}, static_cast<uint32_t>(ids.size()));
    options.stop_strings = std::move(stops);
    return options;
  }

  const Outcome &say(std::vector<std::string> stops = {}) {
    const uint64_t id = scheduler->submit(request(std::move(stops)), nullptr);
    driver->run();
    return driver->outcome(id);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  FakeEngine engine;
  std::vector<int32_t> ids;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<SchedulerDriver> driver;
};

}  // namespace

TEST_CASE("the text of all events is the text of all tokens") {
  const std::string text = "Once upon a time, na\xC3\xAFve \xF0\x9F\x8C\x8D said hello.";
  Speaker speaker(text);
  const Outcome &outcome = speaker.say();
  CHECK(outcome.tokens == speaker.ids);
  CHECK(outcome.text == text);
  CHECK(outcome.last.has_text);
  CHECK(outcome.finish == FinishReason::kLength);
}

TEST_CASE("a stop string ends the request in the step of its last token and is not shown") {
  Speaker speaker("one two three END of it");
  const Outcome outcome = speaker.say({"zzz", " END", "END o"});
  CHECK(outcome.finish == FinishReason::kStopString);
  CHECK(outcome.text == "one two three");
  CHECK(outcome.tokens.size() < speaker.ids.size());
  CHECK(outcome.last.text.empty());
  CHECK(speaker.scheduler->stats().n_finished == 1);
  // The slot was free in the same step: no later row was computed for it.
  CHECK(speaker.scheduler->stats().n_decode_rows == outcome.tokens.size() - 1);
}

TEST_CASE("what only looked like a stop string is shown when the request ends") {
  Speaker speaker("wait for the EN");
  const Outcome &outcome = speaker.say({"END"});
  CHECK(outcome.finish == FinishReason::kLength);
  CHECK(outcome.text == "wait for the EN");
  CHECK(outcome.last.text == "EN");
}

TEST_CASE("a character cut by the token limit comes out as the replacement character") {
  Speaker speaker("hi \xF0\x9F\x8C\x8D");
  RequestOptions request = speaker.request();
  --request.max_tokens;
  const uint64_t id = speaker.scheduler->submit(request, nullptr);
  speaker.driver->run();
  const std::string expected =
      speaker.tokenizer->decode(speaker.ids.data(), speaker.ids.size() - 1, true);
  CHECK(speaker.driver->outcome(id).text == expected);
  CHECK(expected.find("\xEF\xBF\xBD") != std::string::npos);
}

TEST_CASE("stopping and cancelling give out the text held back") {
  for (const bool is_cancel : {false, true}) {
    Speaker speaker("one two three four five");
    const uint64_t id = speaker.scheduler->submit(speaker.request({"two three fourteen"}), nullptr);
    for (int i = 0; i < 100; ++i) {
      speaker.driver->step();
      const Outcome &so_far = speaker.driver->outcome(id);
      std::string known =
          speaker.tokenizer->decode(so_far.tokens.data(), so_far.tokens.size(), true);
      if (known.size() >= 13) break;
    }
    REQUIRE(speaker.driver->outcome(id).text == "one ");
    REQUIRE((is_cancel ? speaker.scheduler->cancel(id) : speaker.scheduler->stop(id)).is_ok());
    speaker.driver->run();
    const Outcome &outcome = speaker.driver->outcome(id);
    CHECK(outcome.text ==
          speaker.tokenizer->decode(outcome.tokens.data(), outcome.tokens.size(), true));
    CHECK(outcome.text.substr(0, 13) == "one two three");
  }
}

TEST_CASE("text state belongs to the request, not to the slot") {
  Speaker speaker("wait for the EN");
  speaker.say({"END"});
  // Had the held text survived, the second request would begin with it.
  CHECK(speaker.say({"END"}).text == "wait for the EN");
}

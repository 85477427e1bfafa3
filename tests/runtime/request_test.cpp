// SPDX-License-Identifier: Apache-2.0

#include "lib/runtime/request.h"

#include <string>

#include "tests/support/catch.h"

using namespace colibri;

namespace {

const std::string kTokenizer =
    std::string(COLIBRI_TEST_DATA) + "/../../../examples/models/colibri-tiny/tokenizer.json";

constexpr RequestLimits kLimits{64, 10, true};

RequestOptions make_options(size_t n_prompt, uint32_t max_tokens = 0) {
  RequestOptions options;
  options.prompt.assign(n_prompt, 1);
  options.max_tokens = max_tokens;
  return options;
}

std::string refusal(const RequestOptions &options, StatusCode code,
                    const RequestLimits &limits = kLimits) {
  uint32_t max_tokens = 77;
  const Status status = check_request(options, limits, &max_tokens);
  CHECK(status.code() == code);
  CHECK(max_tokens == 77);
  return status.message();
}

bool has(const std::string &text, const char *part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("prompt and output together fit the slot, and the effective limit comes back") {
  uint32_t max_tokens = 0;
  REQUIRE(check_request(make_options(4), kLimits, &max_tokens).is_ok());
  CHECK(max_tokens == 6);
  REQUIRE(check_request(make_options(4, 5), kLimits, &max_tokens).is_ok());
  CHECK(max_tokens == 5);
  REQUIRE(check_request(make_options(4, UINT32_MAX), kLimits, &max_tokens).is_ok());
  CHECK(max_tokens == 6);
  REQUIRE(check_request(make_options(9), kLimits, &max_tokens).is_ok());
  CHECK(max_tokens == 1);
}

TEST_CASE("a prompt that leaves no room is refused with prompt, requested and available counts") {
  for (const size_t n_prompt : {10u, 11u, 5000u}) {
    const std::string message = refusal(make_options(n_prompt, 20), StatusCode::kContext);
    CHECK(has(message, (std::to_string(n_prompt) + " tokens").c_str()));
    CHECK(has(message, "20 more are requested"));
    CHECK(has(message, "10 positions"));
  }
}

TEST_CASE("wrong fields of a request are refused by name") {
  CHECK(has(refusal(make_options(0), StatusCode::kArgument), "n_prompt_ids is 0"));
  RequestOptions options = make_options(3);
  options.prompt[2] = 64;
  CHECK(has(refusal(options, StatusCode::kArgument), "prompt_ids[2] is 64; must be 0..63"));
  options.prompt[2] = -1;
  CHECK(has(refusal(options, StatusCode::kArgument), "prompt_ids[2] is -1"));
  options = make_options(3);
  options.stop_ids = {5, -7};
  CHECK(has(refusal(options, StatusCode::kArgument), "stop_ids[1] is -7"));
  options = make_options(3);
  options.sampler.top_p = 2.0f;
  CHECK(has(refusal(options, StatusCode::kArgument), "top_p"));
}

TEST_CASE("stop strings that could never work are refused") {
  const auto with_strings = [](std::vector<std::string> strings) {
    RequestOptions options = make_options(3);
    options.stop_strings = std::move(strings);
    return options;
  };
  CHECK(has(refusal(with_strings({"a", ""}), StatusCode::kArgument),
            "stop_strings[1] has 0 bytes; must be 1..1024"));
  CHECK(has(refusal(with_strings({std::string(1025, 'a')}), StatusCode::kArgument), "1025 bytes"));
  CHECK(has(refusal(with_strings(std::vector<std::string>(65, "a")), StatusCode::kArgument),
            "n_stop_strings is 65; at most 64"));
  CHECK(has(refusal(with_strings({"ab\xC3"}), StatusCode::kArgument), "not UTF-8 at byte 2"));
  CHECK(has(refusal(with_strings({"a"}), StatusCode::kArgument, {64, 10, false}),
            "need a tokenizer"));
  uint32_t max_tokens = 0;
  CHECK(check_request(with_strings(std::vector<std::string>(64, std::string(1024, 'a'))), kLimits,
                      &max_tokens)
            .is_ok());
}

TEST_CASE("a request stops at its own ids and, unless told otherwise, at the model's") {
  RequestOptions options = make_options(1);
  options.stop_ids = {9, 3};
  const std::vector<int32_t> model_ids = {7, 3};
  const Request request(options, 1, model_ids, nullptr);
  for (const int32_t id : {3, 7, 9}) CHECK(request.is_stop(id));
  CHECK_FALSE(request.is_stop(8));
  options.ignores_model_stops = true;
  const Request own(options, 1, model_ids, nullptr);
  CHECK(own.is_stop(9));
  CHECK(own.is_stop(3));
  CHECK_FALSE(own.is_stop(7));
}

TEST_CASE("streamed text has whole characters only and adds up to the text decoded at once") {
  const auto tokenizer = Tokenizer::open(kTokenizer);
  std::vector<int32_t> ids;
  tokenizer->encode("na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD \xF0\x9F\x8C\x8D end",
                    ControlTokens::kPlain, &ids);
  TextStream stream(tokenizer.get(), {});
  REQUIRE(stream.has_text());
  std::string all;
  bool has_waited = false;
  for (const int32_t id : ids) {
    std::string piece;
    REQUIRE_FALSE(stream.push(id, &piece));
    has_waited = has_waited || piece.empty();
    // A piece never begins inside a character.
    REQUIRE((piece.empty() || (static_cast<uint8_t>(piece[0]) & 0xC0) != 0x80));
    all += piece;
  }
  stream.flush(&all);
  CHECK(has_waited);
  CHECK(all == tokenizer->decode(ids.data(), ids.size(), true));

  // An incomplete character at the end comes out as the replacement character.
  const size_t n = ids.size() - 4;
  TextStream cut(tokenizer.get(), {});
  std::string text;
  for (size_t i = 0; i < n; ++i) cut.push(ids[i], &text);
  cut.flush(&text);
  CHECK(text == tokenizer->decode(ids.data(), n, true));
}

TEST_CASE("a stop string is found across tokens and inside characters of several bytes") {
  const auto tokenizer = Tokenizer::open(kTokenizer);
  const std::string whole = "one \xE4\xBD\xA0\xE5\xA5\xBD two";
  std::vector<int32_t> ids;
  tokenizer->encode(whole, ControlTokens::kPlain, &ids);
  TextStream stream(tokenizer.get(), std::vector<std::string>{"\xE5\xA5\xBD tw"});
  std::string text;
  bool is_stopped = false;
  for (size_t i = 0; i < ids.size() && !is_stopped; ++i) is_stopped = stream.push(ids[i], &text);
  CHECK(is_stopped);
  CHECK(text == "one \xE4\xBD\xA0");
}

TEST_CASE("without a tokenizer there is no text") {
  TextStream stream(nullptr, {});
  std::string text;
  CHECK_FALSE(stream.has_text());
  CHECK_FALSE(stream.push(5, &text));
  stream.flush(&text);
  CHECK(text.empty());
}

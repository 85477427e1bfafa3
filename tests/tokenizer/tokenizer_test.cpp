// SPDX-License-Identifier: Apache-2.0
//
// The Tokenizer as its users see it: control tokens, limits, threads, damaged files.

#include "lib/tokenizer/tokenizer.h"

#include <string>
#include <thread>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/snapshot/json.h"

#include "tests/support/catch.h"
#include "tests/tokenizer/cases.h"

namespace colibri::test {
namespace {

using Ids = std::vector<int32_t>;

StatusCode code_of(const std::string &json) {
  try {
    Tokenizer::from_json(json, "test");
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

const std::string kSmall =
    R"("decoder":{"type":"Fuse"},"model":{"vocab":{"a":0,"b":1},"merges":[]})";

TEST_CASE("text that spells control tokens becomes them only when that is allowed") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  const std::string text = "<|user|>Hi<think>";
  CHECK(encode(*tokenizer, text, ControlTokens::kAllowed).front() ==
        tokenizer->find_token("<|user|>"));
  for (const int32_t id : encode(*tokenizer, text, ControlTokens::kNotSpecial)) {
    CHECK_FALSE(tokenizer->is_special(id));
  }
  CHECK(encode(*tokenizer, text, ControlTokens::kNotSpecial).back() ==
        tokenizer->find_token("<think>"));
  for (const int32_t id : encode(*tokenizer, text, ControlTokens::kPlain)) CHECK(id < 2028);
}

TEST_CASE("added tokens of white space alone are taken in plain text too") {
  const auto tokenizer = Tokenizer::open(kinds_path() + "/gpt2");
  const std::string text = "a   b";
  CHECK(encode(*tokenizer, text, ControlTokens::kPlain) ==
        encode(*tokenizer, text, ControlTokens::kAllowed));
  CHECK(encode(*tokenizer, text + "<think>", ControlTokens::kPlain) !=
        encode(*tokenizer, text + "<think>", ControlTokens::kAllowed));
}

TEST_CASE("a text that continues another gets nothing of a start") {
  const auto first = Tokenizer::open(kinds_path() + "/byte-fallback-first");
  Ids ids;
  first->encode_continued("wings", ControlTokens::kPlain, &ids);
  CHECK(decode(*first, ids) == "wings");
  CHECK(ids != encode(*first, "wings", ControlTokens::kPlain));
  const auto always = Tokenizer::open(kinds_path() + "/byte-fallback-always");
  ids.clear();
  always->encode_continued("wings", ControlTokens::kPlain, &ids);
  CHECK(ids == encode(*always, "wings", ControlTokens::kPlain));
}

TEST_CASE("a tokenizer answers what it is asked about its tokens") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  CHECK(tokenizer->size() == 2048);
  CHECK(tokenizer->prefix_ids().empty());
  CHECK(tokenizer->find_token("<|endoftext|>") == 2028);
  CHECK(tokenizer->find_token("\xC4\xA0"
                              "a") == 257);
  CHECK_FALSE(tokenizer->find_token("no such token").has_value());
  CHECK(tokenizer->token_bytes(257) == " a");
  CHECK(tokenizer->token_bytes(2028) == "<|endoftext|>");
  CHECK(tokenizer->token_bytes(5000).empty());
  CHECK(tokenizer->token_bytes(-1).empty());
  CHECK(tokenizer->is_special(2028));
  CHECK_FALSE(tokenizer->is_special(257));
  CHECK_FALSE(tokenizer->is_special(-5));
}

TEST_CASE("a folder opens as well as the file in it") {
  const auto tokenizer = Tokenizer::open(parent_directory(tiny_tokenizer_path()));
  CHECK(tokenizer->size() == 2048);
  try {
    Tokenizer::open("/no/such/place");
    FAIL("opened");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kNotFound);
  }
}

TEST_CASE("invalid UTF-8 is read as replacement characters") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  CHECK(encode(*tokenizer, "a\xFFz\xE2\x82") == encode(*tokenizer, "a\xEF\xBF\xBDz\xEF\xBF\xBD"));
}

TEST_CASE("the prefix of the post-processor is told but not added") {
  const auto tokenizer = Tokenizer::from_json(
      "{" + kSmall + R"(,"post_processor":{"type":"Sequence","processors":[{"type":"ByteLevel"},
        {"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"b","type_id":0}},
          {"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"a","type_id":0}}],
        "special_tokens":{"b":{"id":"b","ids":[1],"tokens":["b"]}}}]}})",
      "test");
  CHECK(tokenizer->prefix_ids() == Ids{1});
  CHECK(encode(*tokenizer, "ab") == Ids{0, 1});
}

TEST_CASE("holes above the vocabulary are empty, holes within are refused") {
  const auto tokenizer =
      Tokenizer::from_json("{" + kSmall + R"(,"added_tokens":[{"id":9,"content":"<x>"}]})", "test");
  CHECK(tokenizer->size() == 10);
  CHECK(tokenizer->token_bytes(5).empty());
  CHECK(decode(*tokenizer, {0, 5, 9}) == "a<x>");
  const std::string hole =
      R"({"decoder":{"type":"Fuse"},"model":{"vocab":{"a":0,"b":2},"merges":[]})";
  CHECK(code_of(hole + "}") == StatusCode::kFormat);
  CHECK(code_of(hole + R"(,"added_tokens":[{"id":1,"content":"<x>"}]})") == StatusCode::kOk);
}

TEST_CASE("a file that is no tokenizer is refused") {
  CHECK(code_of("{" + kSmall + "}") == StatusCode::kOk);
  CHECK(code_of("") == StatusCode::kFormat);
  CHECK(code_of("[]") == StatusCode::kFormat);
  CHECK(code_of("{}") == StatusCode::kFormat);
  CHECK(code_of(R"({"model":{}})") != StatusCode::kOk);
  CHECK(code_of("{" + kSmall + R"(,"post_processor":{"type":"BertProcessing"}})") ==
        StatusCode::kUnsupported);
  CHECK(code_of("{" + kSmall + R"(,"post_processor":{"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"z"}}],"special_tokens":{}}})") == StatusCode::kFormat);
  CHECK(code_of("{" + kSmall + R"(,"post_processor":{"type":"TemplateProcessing",
      "single":[{"SpecialToken":{"id":"z"}}],"special_tokens":{"z":{"ids":[77]}}}})") ==
        StatusCode::kFormat);
  CHECK(code_of(R"({"decoder":{"type":"Fuse"},"model":{"vocab":{"a":0,"b":0},"merges":[]}})") ==
        StatusCode::kFormat);
}

TEST_CASE("both spellings of the merges in a whole file give the same ids") {
  const std::vector<uint8_t> bytes = read_whole_file(tiny_tokenizer_path(), kMaxJsonBytes);
  const std::string json(bytes.begin(), bytes.end());
  const JsonDocument document = JsonDocument::parse(json, "pairs");
  const JsonValue merges = document.root().get("model").get("merges");
  REQUIRE(merges.at(0).is_array());
  JsonWriter writer;
  writer.begin_object();
  for (const char *key : {"added_tokens", "pre_tokenizer", "decoder"}) {
    writer.key(key).value(document.root().get(key));
  }
  writer.key("model").begin_object().key("ignore_merges").value(true);
  writer.key("vocab").value(document.root().get("model").get("vocab"));
  writer.key("merges").begin_array();
  for (size_t i = 0; i < merges.size(); ++i) {
    writer.value(std::string(*merges.at(i).at(0).as_string()) + " " +
                 std::string(*merges.at(i).at(1).as_string()));
  }
  writer.end_array().end_object().end_object();
  const auto pairs = Tokenizer::from_json(json, "pairs");
  const auto lines = Tokenizer::from_json(writer.text(), "lines");
  for (const TokenizerCase &c : read_cases(tiny_cases_path())) {
    REQUIRE(encode(*pairs, c.text) == encode(*lines, c.text));
  }
}

TEST_CASE("a text above the limit is refused before it is read") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  std::vector<int32_t> ids;
  const char byte = 'a';
  try {
    // The view is longer than what it points to; the check comes first.
    tokenizer->encode(std::string_view(&byte, kMaxTextBytes + 1), ControlTokens::kNotSpecial, &ids);
    FAIL("not refused");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kArgument);
  }
  CHECK(ids.empty());
}

TEST_CASE("long texts give what their parts give, cache or not") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  std::string text;
  Ids expected;
  for (int i = 0; i < 400; ++i) {
    const std::string line = "Line " + std::to_string(i % 37) + " of some wonderful story!\n";
    text += line;
    const Ids ids = encode(*tokenizer, line);
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  CHECK(text.size() > (8u << 10));
  CHECK(encode(*tokenizer, text + text) == [&] {
    Ids twice = expected;
    twice.insert(twice.end(), expected.begin(), expected.end());
    return twice;
  }());
}

TEST_CASE("hard texts of 300 kB are encoded in reasonable time") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  for (const char *unit :
       {"a", " ", "\n", "1", "'", "<", "<|user|", "\xE4\xB8\xAD", "ab ", "\xCC\x81"}) {
    std::string text;
    while (text.size() < 300000) text += unit;
    const Ids ids = encode(*tokenizer, text, ControlTokens::kAllowed);
    CHECK(decode(*tokenizer, ids) == text);  // quadratic work would take minutes
  }
}

TEST_CASE("threads share a tokenizer") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  const std::vector<TokenizerCase> cases = read_cases(tiny_cases_path());
  std::vector<std::thread> threads;
  std::vector<int> n_wrong(4, 0);
  for (size_t t = 0; t < n_wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (const TokenizerCase &c : cases) {
        n_wrong[t] += encode(*tokenizer, c.text, ControlTokens::kAllowed) != c.ids;
        n_wrong[t] += decode(*tokenizer, c.ids) != c.decoded;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(n_wrong == std::vector<int>(4, 0));
}

}  // namespace
}  // namespace colibri::test

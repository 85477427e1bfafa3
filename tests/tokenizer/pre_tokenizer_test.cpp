// SPDX-License-Identifier: Apache-2.0
//
// Pieces of every kind and behaviour. Expected values come from Hugging Face tokenizers 0.23.

#include "lib/tokenizer/pre_tokenizer.h"

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/snapshot/json.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Texts = std::vector<std::string>;

PreTokenizer read(const std::string &json) {
  const JsonDocument document = JsonDocument::parse(json, "test");
  return PreTokenizer::read(document.root(), "test");
}

Texts split(const std::string &json, std::string_view text, bool starts_text = true) {
  const PreTokenizer splitter = read(json);
  PreTokenizer::Matchers matchers = splitter.make_matchers();
  Texts pieces;
  splitter.split(text, starts_text, &matchers,
                 [&](std::string_view piece) { pieces.emplace_back(piece); });
  return pieces;
}

std::string hyphen_split(const std::string &behavior, bool is_inverted) {
  return R"({"type":"Split","pattern":{"Regex":"-"},"behavior":")" + behavior + R"(","invert":)" +
         (is_inverted ? "true}" : "false}");
}

StatusCode code_of(const std::string &json) {
  try {
    read(json);
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

TEST_CASE("each behaviour of a split puts the matches where it says") {
  const std::string_view text = "-a--b-c--";
  CHECK(split(hyphen_split("Removed", false), text) == Texts{"a", "b", "c"});
  CHECK(split(hyphen_split("Removed", true), text) == Texts{"-", "-", "-", "-", "-", "-"});
  CHECK(split(hyphen_split("Isolated", false), text) ==
        Texts{"-", "a", "-", "-", "b", "-", "c", "-", "-"});
  CHECK(split(hyphen_split("MergedWithPrevious", false), text) ==
        Texts{"-", "a-", "-", "b-", "c-", "-"});
  CHECK(split(hyphen_split("MergedWithPrevious", true), text) ==
        Texts{"-a", "-", "-b", "-c", "-", "-"});
  CHECK(split(hyphen_split("MergedWithNext", false), text) ==
        Texts{"-a", "-", "-b", "-c", "-", "-"});
  CHECK(split(hyphen_split("MergedWithNext", true), text) ==
        Texts{"-", "a-", "-", "b-", "c-", "-"});
  CHECK(split(hyphen_split("Contiguous", false), text) ==
        Texts{"-", "a", "--", "b", "-", "c", "--"});
}

TEST_CASE("a literal pattern is no regular expression") {
  CHECK(split(R"({"type":"Split","pattern":{"String":"a.c"},"behavior":"Isolated"})", "xa.cabc") ==
        Texts{"x", "a.c", "abc"});
}

TEST_CASE("a later split sees only the piece it is given") {
  const std::string json =
      R"({"type":"Sequence","pretokenizers":[
        {"type":"Split","pattern":{"Regex":"\\p{N}"},"behavior":"Isolated"},
        {"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\s+"},"behavior":"Isolated"}]})";
  CHECK(split(json, "a  1") == Texts{"a", "  ", "1"});
  CHECK(split(json, "a  b") == Texts{"a", " ", " ", "b"});
}

TEST_CASE("metaspace marks spaces and the start") {
  const std::string mark = "\xE2\x96\x81";
  CHECK(split(R"({"type":"Metaspace"})", "Hey  friend " + mark + "x") ==
        Texts{mark + "Hey", mark, mark + "friend", mark, mark + "x"});
  CHECK(split(R"({"type":"Metaspace","prepend_scheme":"never","split":false})", "Hey  friend") ==
        Texts{"Hey" + mark + mark + "friend"});
  CHECK(split(R"({"type":"Metaspace","add_prefix_space":false,"split":false})", "a b") ==
        Texts{"a" + mark + "b"});
  CHECK(split(R"({"type":"Metaspace","prepend_scheme":"first"})", " a b") ==
        Texts{mark + "a", mark + "b"});
  CHECK(split(R"({"type":"Metaspace","prepend_scheme":"first"})", "a b", false) ==
        Texts{"a", mark + "b"});
}

TEST_CASE("digits come alone or in runs") {
  CHECK(split(R"({"type":"Digits","individual_digits":false})", "a12b3\xD9\xA3\xC2\xBD") ==
        Texts{"a", "12", "b", "3\xD9\xA3\xC2\xBD"});
  CHECK(split(R"({"type":"Digits","individual_digits":true})", "a12b3") ==
        Texts{"a", "1", "2", "b", "3"});
}

TEST_CASE("ByteLevel splits as GPT-2 does and adds its space") {
  CHECK(split(R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})",
              "Hello I'm  12 ok") == Texts{" Hello", " I", "'m", " ", " 12", " ok"});
  CHECK(split(R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false})", " a b") ==
        Texts{" a b"});
  CHECK(read(R"({"type":"ByteLevel"})").is_byte_level());
  CHECK_FALSE(read("null").is_byte_level());
  CHECK(split("null", "a b") == Texts{"a b"});
}

TEST_CASE("unknown kinds and behaviours are refused by name") {
  CHECK(code_of(R"({"type":"Whitespace"})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({})") == StatusCode::kUnsupported);
  CHECK(code_of(hyphen_split("Sideways", false)) == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Metaspace","prepend_scheme":"x"})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Split","behavior":"Isolated"})") == StatusCode::kFormat);
  CHECK(code_of(R"({"type":"ByteLevel","use_regex":1})") == StatusCode::kFormat);
  CHECK(
      code_of(R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel"},{"type":"Digits"}]})") ==
      StatusCode::kUnsupported);
  try {
    read(R"({"type":"UnicodeScripts"})");
    FAIL("not refused");
  } catch (const Error &error) {
    CHECK(std::string(error.what()).find("UnicodeScripts") != std::string::npos);
  }
}

}  // namespace
}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Text changes before the split.

#include "lib/tokenizer/normalizer.h"

#include <string>

#include "lib/base/status.h"
#include "lib/snapshot/json.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

std::string normalize(const std::string &json, std::string_view text) {
  const JsonDocument document = JsonDocument::parse(json, "test");
  std::string normalized = "old";
  Normalizer::read(document.root(), "test").normalize(text, &normalized);
  return normalized;
}

StatusCode code_of(const std::string &json) {
  try {
    normalize(json, "");
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

TEST_CASE("normalisers work one after the other") {
  CHECK(normalize("null", "a b") == "a b");
  CHECK(normalize(R"({"type":"NFC"})", "e\xCC\x81") == "\xC3\xA9");
  const std::string mixtral = R"({"type":"Sequence","normalizers":[
      {"type":"Prepend","prepend":"_"},
      {"type":"Replace","pattern":{"String":" "},"content":"_"}]})";
  CHECK(normalize(mixtral, "a  b ") == "_a__b_");
  CHECK(normalize(mixtral, "") == "");
  CHECK(normalize(R"({"type":"Sequence","normalizers":[]})", "a") == "a");
  CHECK(normalize(R"({"type":"Replace","pattern":{"Regex":" +"},"content":"$0"})", "a  b c") ==
        "a$0b$0c");
  CHECK(normalize(R"({"type":"Replace","pattern":{"String":"aa"},"content":"a"})", "aaaaa") ==
        "aaa");
}

TEST_CASE("other normalisers are refused by name") {
  CHECK(code_of(R"({"type":"Lowercase"})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Replace","pattern":{"String":""},"content":"a"})") ==
        StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Prepend"})") == StatusCode::kFormat);
  CHECK(code_of(R"({"type":"Replace","pattern":{"String":"a"}})") == StatusCode::kFormat);
  CHECK(code_of("[]") == StatusCode::kUnsupported);
}

}  // namespace
}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Which patterns are translated, and which are refused.

#include "lib/tokenizer/regex_syntax.h"

#include <string>
#include <vector>

#include "lib/base/status.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

StatusCode code_of(std::string_view pattern) {
  try {
    translate_regex(pattern, "test");
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

TEST_CASE("what has one meaning stays as it is") {
  CHECK(translate_regex("a|b+?(?:c)*", "test") == "a|b+?(?:c)*");
  CHECK(translate_regex("\\p{N}+\\P{Lu}", "test") == "\\p{N}+\\P{Lu}");
  CHECK(translate_regex("(a)", "test") == "(?:a)");
  CHECK(translate_regex("(?!x)(?<=y)", "test") == "(?!x)(?<=y)");
  CHECK(translate_regex("", "test").empty());
}

TEST_CASE("an interval with a plus is a repeated group") {
  CHECK(translate_regex("a{1,3}+", "test") == "(?:a{1,3})+");
  CHECK(translate_regex("x[ab]{2}++", "test") == "x(?:[ab]{2})++");
  CHECK(translate_regex("a{1,3}?b", "test") == "a{1,3}?b");
  CHECK(translate_regex("a{x}", "test") == "a\\{x\\}");
}

TEST_CASE("negated properties turn round once") {
  CHECK(translate_regex("\\p{^N}", "test") == "\\P{N}");
  CHECK(translate_regex("\\P{^N}", "test") == "\\p{N}");
}

TEST_CASE("constructs of another or unknown meaning are refused") {
  for (const char *pattern :
       {"\\w",     "\\h",         "\\b",           "\\R",         "\\X",       "\\K",
        "\\1",     "\\k<a>",      "[a[b]]",        "[[:alpha:]]", "[a&&b]",    "(?i)a",
        "(?m:a)",  "(?<n>a)",     "(?#c)",         "(?~a)",       "a**",       "*a",
        "(?=a)*",  "a{,3}",       "a{2}?",         "[]a]",        "[a",        "(a",
        "a)",      "\\p{L",       "\\pL",          "\\xE4",       "\\x{D800}", "\\u12",
        "(?i:ss)", "(?i:\\p{L})", "(?i:\xC3\xA9)", "[\\s-a]",     "[a-\\d]",   "\\"}) {
    CAPTURE(pattern);
    CHECK(code_of(pattern) == StatusCode::kUnsupported);
  }
  CHECK(code_of(std::string(100, '(') + std::string(100, ')')) == StatusCode::kUnsupported);
}

TEST_CASE("a refusal says what and where") {
  try {
    translate_regex("ab\\w", "file.json");
    FAIL("not refused");
  } catch (const Error &error) {
    CHECK(std::string(error.what()).find("file.json") != std::string::npos);
    CHECK(std::string(error.what()).find("byte 2") != std::string::npos);
  }
}

}  // namespace
}  // namespace colibri::test

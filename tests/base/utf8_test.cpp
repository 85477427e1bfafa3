// SPDX-License-Identifier: Apache-2.0
//
// Stepping, checking and repairing UTF-8.

#include "lib/base/utf8.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TEST_CASE("every code point survives encoding and decoding") {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, &text);
    REQUIRE(count_valid_utf8(text) == text.size());
    REQUIRE(utf8_length(text[0]) == text.size());
    REQUIRE(decode_utf8(text) == c);
  }
}

TEST_CASE("each maximal bad part becomes one replacement character") {
  const std::string r(kReplacementText);
  // Expected values: Python, bytes.decode(errors="replace").
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain", "plain"},
      {"\x80", r},
      {"a\xFF\xFE"
       "b",
       "a" + r + r + "b"},
      {"\xE2\x82", r},
      {"\xE2\x82"
       "a",
       r + "a"},
      {"\xE2\x82\xE2\x82\xAC", r + "\xE2\x82\xAC"},
      {"\xF0\x9F\x98", r},
      {"\xF0\x9F\x98\xF0\x9F", r + r},
      {"\xC0\xAF", r + r},
      {"\xE0\x80\x80", r + r + r},
      {"\xED\xA0\x80", r + r + r},
      {"\xF4\x90\x80\x80", r + r + r + r},
      {"\xF5\x80", r + r},
      {"12345678\xC3", "12345678" + r},
  };
  for (const auto &[bad, good] : cases) CHECK(replace_invalid_utf8(bad) == good);
}

TEST_CASE("an incomplete character is told apart from a bad one") {
  CHECK(step_utf8("\xE2\x82").kind == Utf8Step::Kind::kIncomplete);
  CHECK(step_utf8("\xE2\x82").length == 2);
  CHECK(step_utf8("\xE2"
                  "a")
            .kind == Utf8Step::Kind::kInvalid);
  CHECK(step_utf8("\xE0\x80").kind == Utf8Step::Kind::kInvalid);
  CHECK(step_utf8("\xE2\x82\xAC").kind == Utf8Step::Kind::kCharacter);
}

}  // namespace
}  // namespace colibri::test

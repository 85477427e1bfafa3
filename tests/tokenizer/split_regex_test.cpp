// SPDX-License-Identifier: Apache-2.0
//
// Searching with patterns of tokenizer files. Expected values come from Oniguruma, through Hugging
// Face tokenizers.

#include "lib/tokenizer/split_regex.h"

#include <string>
#include <vector>

#include "lib/base/status.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Texts = std::vector<std::string>;

Texts parts(const std::string &pattern, std::string_view text) {
  const SplitRegex regex = SplitRegex::compile(pattern, "test");
  RegexMatcher matcher(regex);
  Texts found;
  for_each_part(matcher, text, [&](size_t begin, size_t end, bool) {
    found.emplace_back(text.substr(begin, end - begin));
  });
  return found;
}

bool matches(const std::string &pattern, char32_t c) {
  std::string text;
  append_utf8(c, &text);
  const SplitRegex regex = SplitRegex::compile(pattern, "test");
  RegexMatcher matcher(regex);
  MatchRange match;
  return matcher.find(text, 0, &match) && match.end == text.size();
}

TEST_CASE("white space is the Unicode property, in and out of a class") {
  std::vector<char32_t> spaces;
  const SplitRegex plain = SplitRegex::compile("\\s", "test");
  const SplitRegex in_class = SplitRegex::compile("[x\\s]", "test");
  const SplitRegex negated = SplitRegex::compile("[^\\S]", "test");
  const SplitRegex opposite = SplitRegex::compile("\\S", "test");
  const SplitRegex opposite_in_class = SplitRegex::compile("[\\S]", "test");
  RegexMatcher a(plain), b(in_class), c(negated), d(opposite), e(opposite_in_class);
  for (char32_t point = 0; point < 0x3100; ++point) {
    std::string text;
    append_utf8(point, &text);
    MatchRange match;
    const bool is_space = a.find(text, 0, &match);
    if (is_space) spaces.push_back(point);
    if (point != 'x') REQUIRE(b.find(text, 0, &match) == is_space);
    REQUIRE(c.find(text, 0, &match) == is_space);
    REQUIRE(d.find(text, 0, &match) != is_space);
    REQUIRE(e.find(text, 0, &match) != is_space);
  }
  CHECK(spaces == std::vector<char32_t>{0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x20,   0x85,
                                        0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
                                        0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200A, 0x2028,
                                        0x2029, 0x202F, 0x205F, 0x3000});
}

TEST_CASE("case-insensitive groups fold as Unicode does, and end where they end") {
  CHECK(parts("(?i:'s|'t)", "x'\xC5\xBFy'Sz") == Texts{"x", "'\xC5\xBF", "y", "'S", "z"});
  CHECK(parts("(?i:a)b", "ABAbab") == Texts{"AB", "Ab", "ab"});
}

TEST_CASE("quantifiers mean what Ruby means") {
  CHECK(parts("\\p{N}{1,3}+", "123456789a") == Texts{"123456789", "a"});
  CHECK(parts("\\p{N}{1,3}", "1234567a") == Texts{"123", "456", "7", "a"});
  CHECK(parts("a++ab", "aaab") == Texts{"aaab"});
}

TEST_CASE("empty matches cut, but not right after a match") {
  CHECK(parts("x*", "axxb") == Texts{"a", "xx", "b"});
  CHECK(parts("", "ab\xC3\xA9") == Texts{"a", "b", "\xC3\xA9"});
  CHECK(parts("x*", "").empty());
}

TEST_CASE("line anchors and the dot know only the line feed") {
  CHECK(parts("$", "a\nb\n") == Texts{"a", "\nb", "\n"});
  CHECK(parts("^", "a\nb\n") == Texts{"a\n", "b\n"});
  CHECK(parts(".", "a\nb\r") == Texts{"a", "\n", "b", "\r"});
}

TEST_CASE("scripts are by Script, categories by category") {
  CHECK(matches("\\p{Han}", 0x6F22));
  CHECK(matches("\\p{Han}", 0x3005));
  CHECK_FALSE(matches("\\p{Han}", 0x30FC));  // Script_Extensions would take it
  CHECK(matches("\\p{N}", 0xBD));
  CHECK_FALSE(matches("\\d", 0xBD));
  CHECK(matches("[\\u4E00-\\u9FA5]", 0x4E00));
  CHECK(matches("[\\[\\]\\-]", '-'));
}

TEST_CASE("symbols and ideographs that PCRE2 may not know yet have their category") {
  for (const char *pattern : {"\\p{S}", "[\\p{P}\\p{S}]", "\\P{L}", "[^\\p{L}]"}) {
    CHECK(matches(pattern, 0x1FA77));  // pink heart, Unicode 15
  }
  CHECK(matches("\\p{L}", 0x31350));
  CHECK(matches("[x\\p{L}]", 0x2EBF0));
  CHECK_FALSE(matches("\\P{S}", 0x1FA77));
  CHECK_FALSE(matches("[^\\s\\p{L}]", 0x31350));
  CHECK(parts("\\p{L}{1,2}", "abc") == Texts{"ab", "c"});
}

TEST_CASE("a literal has no special characters") {
  const SplitRegex regex = SplitRegex::compile_literal("a.c", "test");
  RegexMatcher matcher(regex);
  MatchRange match;
  REQUIRE(matcher.find("xabca.c", 0, &match));
  CHECK(match.begin == 4);
  CHECK(match.end == 7);
}

TEST_CASE("a pattern that cannot be compiled is an error with a reason") {
  CHECK_THROWS_AS(SplitRegex::compile("\\p{Nonsense}", "test"), Error);
  CHECK_THROWS_AS(SplitRegex::compile("(?<=a+)b", "test"), Error);
  CHECK_THROWS_AS(SplitRegex::compile(std::string(100000, 'a'), "test"), Error);
}

TEST_CASE("a pattern that runs away ends in an error") {
  const SplitRegex regex = SplitRegex::compile("(?:(?:a|a)*)*b", "test");
  RegexMatcher matcher(regex);
  MatchRange match;
  try {
    matcher.find(std::string(100, 'a') + "cb", 0, &match);
    FAIL("no error");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kFormat);
  }
}

TEST_CASE("a match that needs more than the small stack gets a larger one") {
  const SplitRegex regex = SplitRegex::compile("(?:ab|[cd]e)+x", "test");
  RegexMatcher matcher(regex);
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 3 == 0 ? "ce" : "ab";
  text += 'x';
  MatchRange match;
  REQUIRE(matcher.find(text, 0, &match));
  CHECK(match.end == text.size());
}

}  // namespace
}  // namespace colibri::test

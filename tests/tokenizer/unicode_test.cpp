// SPDX-License-Identifier: Apache-2.0
//
// Canonical composition and the character classes of added tokens.

#include "lib/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "lib/base/utf8.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

std::string nfc(std::string_view text) {
  std::string normalized;
  append_nfc(text, &normalized);
  return normalized;
}

std::string nfc_by_utf8proc(const std::string &text) {
  utf8proc_uint8_t *result = nullptr;
  const utf8proc_ssize_t n =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  REQUIRE(n >= 0);
  std::string normalized(reinterpret_cast<const char *>(result), static_cast<size_t>(n));
  std::free(result);
  return normalized;
}

// Code points of the full canonical decomposition.
std::vector<utf8proc_int32_t> decomposition(char32_t c) {
  std::vector<utf8proc_int32_t> parts(32);
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), 32,
                                         UTF8PROC_DECOMPOSE, &boundary);
  parts.resize(static_cast<size_t>(n));
  return parts;
}

TEST_CASE("settled characters are unchanged starters that join nothing before them") {
  std::set<char32_t> joining;  // whatever stands behind the first place of a decomposition
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const auto parts = decomposition(c);
    for (size_t i = 1; i < parts.size(); ++i) joining.insert(static_cast<char32_t>(parts[i]));
  }
  size_t n_settled = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (!is_settled_in_nfc(c)) continue;
    ++n_settled;
    std::string text;
    append_utf8(c, &text);
    REQUIRE(nfc_by_utf8proc(text) == text);
    REQUIRE(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class == 0);
    REQUIRE(joining.count(c) == 0);
  }
  CHECK(n_settled > 30000);
}

TEST_CASE("normal form C composes, orders and leaves alone what it must") {
  CHECK(nfc("") == "");
  CHECK(nfc("plain text") == "plain text");
  CHECK(nfc("e\xCC\x81") == "\xC3\xA9");
  CHECK(nfc("xe\xCC\x81y") == "x\xC3\xA9y");
  CHECK(nfc("a\xCC\x88\xCC\xA3") == "\xE1\xBA\xA1\xCC\x88");             // marks change places
  CHECK(nfc("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8") == "\xEA\xB0\x81");  // Hangul
  CHECK(nfc("\xEA\xB0\x80\xE1\x86\xA8") == "\xEA\xB0\x81");
  CHECK(nfc("\xE2\x84\xAB") == "\xC3\x85");                  // angstrom sign
  CHECK(nfc("\xE0\xA5\x98") == "\xE0\xA4\x95\xE0\xA4\xBC");  // never composed
  CHECK(nfc("\xEF\xAC\x81") == "\xEF\xAC\x81");              // compatibility only
}

TEST_CASE("normal form C equals utf8proc on random texts") {
  const std::vector<char32_t> alphabet = {'a',   'e',   0x300,  0x301,  0x308,  0x323,  0x327,
                                          0x345, 0x3B1, 0x1100, 0x1161, 0x11A8, 0xAC00, 0x4E00,
                                          0x915, 0x93C, 0x958,  0x304B, 0x3099, 0x212B, 0x1D15E,
                                          0x9C7, 0x9BE, 0xE9,   0x1F600};
  uint32_t state = 12345;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525u + 1013904223u;
      append_utf8(alphabet[(state >> 16) % alphabet.size()], &text);
    }
    REQUIRE(nfc(text) == nfc_by_utf8proc(text));
  }
}

TEST_CASE("a long run of marks is normalised in reasonable time") {
  std::string text = "a";
  for (int i = 0; i < 200000; ++i) text += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  CHECK(nfc(text).substr(0, 3) == "\xE1\xBA\xA1");  // quadratic sorting would take minutes
}

TEST_CASE("word characters and white space are those of Unicode") {
  for (const char32_t c : {U'a', U'9', U'_', char32_t{0xE9}, char32_t{0x4E00}, char32_t{0x301},
                           char32_t{0x203F}, char32_t{0x200D}, char32_t{0x24B6}}) {
    CHECK(is_word_character(c));
  }
  for (const char32_t c : {U' ', U'-', U'\n', char32_t{0xBD}, char32_t{0x3002}}) {
    CHECK_FALSE(is_word_character(c));
  }
  for (const char32_t c : {U' ', U'\t', char32_t{0x85}, char32_t{0xA0}, char32_t{0x3000}}) {
    CHECK(is_white_space(c));
  }
  CHECK_FALSE(is_white_space(0x200B));
  CHECK_FALSE(is_white_space(0x180E));
}

}  // namespace
}  // namespace colibri::test

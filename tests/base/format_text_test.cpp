// SPDX-License-Identifier: Apache-2.0
//
// Texts are valid UTF-8 on one line, whatever goes in and wherever they are cut.

#include <cstdarg>
#include <cstring>
#include <string>

#include "lib/base/format_text.h"
#include "tests/support/catch.h"

namespace {

[[gnu::format(printf, 2, 3)]] std::string format_in(size_t capacity, const char *format, ...) {
  std::string text(capacity + 1, '#');
  va_list args;
  va_start(args, format);
  const size_t length = colibri::format_text(text.data(), capacity, format, args);
  va_end(args);
  REQUIRE(length < capacity);
  REQUIRE(std::strlen(text.c_str()) == length);
  REQUIRE(text[capacity] == '#');
  return text.substr(0, length);
}

}  // namespace

TEST_CASE("a text that fits is kept as it is") {
  REQUIRE(format_in(64, "rows is %d; must be %s", 0, "1..64") == "rows is 0; must be 1..64");
  REQUIRE(format_in(6, "%s", "abcde") == "abcde");
  REQUIRE(format_in(64, "%s", "gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0 \xF0\x9F\x90\xA6") ==
          "gr\xC3\xBC\xC3\x9F \xE4\xBD\xA0 \xF0\x9F\x90\xA6");
  REQUIRE(format_in(1, "%s", "abc").empty());
  REQUIRE(format_in(8, "%s", "").empty());
}

TEST_CASE("a text that is too long is cut between characters") {
  REQUIRE(format_in(6, "%s", "abcdef") == "abcde");
  const char *bird = "ab\xF0\x9F\x90\xA6z";  // a character of four bytes at 2..5
  REQUIRE(format_in(4, "%s", bird) == "ab");
  REQUIRE(format_in(5, "%s", bird) == "ab");
  REQUIRE(format_in(6, "%s", bird) == "ab");
  REQUIRE(format_in(7, "%s", bird) == "ab\xF0\x9F\x90\xA6");
  REQUIRE(format_in(8, "%s", bird) == bird);
}

TEST_CASE("control characters become question marks") {
  REQUIRE(format_in(32, "%s", "a\nb\tc\x1B[31m\x7F") == "a?b?c?[31m?");
}

TEST_CASE("bytes that are not UTF-8 become question marks") {
  REQUIRE(format_in(32, "%s", "a\xFFz") == "a?z");
  REQUIRE(format_in(32, "%s", "\x80") == "?");
  REQUIRE(format_in(32, "%s", "\xC0\xAF") == "??");            // overlong slash
  REQUIRE(format_in(32, "%s", "\xE0\x80\xAF") == "???");       // overlong, three bytes
  REQUIRE(format_in(32, "%s", "\xED\xA0\x80") == "???");       // surrogate
  REQUIRE(format_in(32, "%s", "\xF4\x90\x80\x80") == "????");  // above U+10FFFF
  REQUIRE(format_in(32, "%s", "\xF0\x80\x80\x80") == "????");  // overlong, four bytes
  REQUIRE(format_in(32, "%s", "x\xE4\xBD") == "x??");          // not cut by the capacity
  REQUIRE(format_in(32, "%s", "\xE4\xBDz") == "??z");
  REQUIRE(format_in(32, "%s", "\xF4\x8F\xBF\xBF") == "\xF4\x8F\xBF\xBF");
  REQUIRE(format_in(32, "%s", "\xED\x9F\xBF\xEE\x80\x80") == "\xED\x9F\xBF\xEE\x80\x80");
}

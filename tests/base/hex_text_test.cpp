// SPDX-License-Identifier: Apache-2.0
//
// Hashes as text, both ways.

#include "lib/base/hex_text.h"

#include "tests/support/catch.h"

using colibri::hex_text;
using colibri::parse_hex_text;

TEST_CASE("a number has 16 lower-case digits, zeros in front") {
  CHECK(hex_text(0) == "0000000000000000");
  CHECK(hex_text(0xABC) == "0000000000000abc");
  CHECK(hex_text(UINT64_MAX) == "ffffffffffffffff");
}

TEST_CASE("every number is read back from its text") {
  for (uint64_t number = 1; number != 0; number *= 0x9e3779b97f4a7c16) {
    CHECK(parse_hex_text(hex_text(number)) == number);
  }
}

TEST_CASE("nothing but such a text is a number") {
  for (const char *text :
       {"", "0", "00000000000000000", "000000000000000", "0000000000000ABC", "0x00000000000abc",
        "-000000000000abc", "+000000000000abc", " 00000000000000a", "000000000000000g"}) {
    CHECK_FALSE(parse_hex_text(text).has_value());
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// The alphabet of byte-level vocabularies.

#include "lib/tokenizer/byte_alphabet.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TEST_CASE("every byte has its own letter and comes back from it") {
  for (int byte = 0; byte < 256; ++byte) {
    CHECK(letter_to_byte(byte_to_letter(static_cast<uint8_t>(byte))) == byte);
  }
  CHECK(byte_to_letter(' ') == 0x120);
  CHECK(byte_to_letter('\n') == 0x10A);
  CHECK(byte_to_letter('!') == '!');
  CHECK(byte_to_letter(173) == 0x143);
}

TEST_CASE("characters outside the alphabet spell no bytes") {
  CHECK(letter_to_byte(' ') == -1);
  CHECK(letter_to_byte(0x144) == -1);
  CHECK(letter_to_byte(0xFF5C) == -1);
  std::string bytes = "kept";
  CHECK_FALSE(append_spelled_bytes("ab c", &bytes));
  CHECK(bytes == "kept");
  CHECK(append_spelled_bytes("\xC4\xA0x", &bytes));
  CHECK(bytes == "kept x");
}

}  // namespace
}  // namespace colibri::test

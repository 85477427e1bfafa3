// SPDX-License-Identifier: Apache-2.0
//
// Texts of files in messages.

#include "lib/snapshot/printable.h"

#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("control characters of a name do not reach a message") {
  CHECK(printable("a\nb\x1b[31m\x7f") == "a?b?[31m?");
  CHECK(printable(std::string_view("a\0b", 3)) == "a?b");
  CHECK(printable("\xC3\xA9") == "\xC3\xA9");
}

TEST_CASE("long names are cut between characters") {
  CHECK(printable("abcdef", 3) == "abc");
  CHECK(printable("ab\xE2\x82\xAC", 5) == "ab\xE2\x82\xAC");
  CHECK(printable("ab\xE2\x82\xACx", 4) == "ab");
  CHECK(printable("\x80\x80\x80", 2).empty());
}

}  // namespace colibri::test

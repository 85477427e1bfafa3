// SPDX-License-Identifier: Apache-2.0
//
// Texts to ids.

#include "lib/tokenizer/token_map.h"

#include <string>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TEST_CASE("a map finds all it was given, however much it grew") {
  TokenMap map;
  for (int i = 0; i < 5000; ++i) REQUIRE(map.insert("token" + std::to_string(i), i));
  CHECK(map.size() == 5000);
  for (int i = 0; i < 5000; ++i) REQUIRE(map.find("token" + std::to_string(i)) == i);
  CHECK(map.find("token") == -1);
  CHECK(map.find("token5000") == -1);
}

TEST_CASE("a map keeps the first id of a text") {
  TokenMap map;
  CHECK(map.find("") == -1);
  CHECK(map.insert("a", 1));
  CHECK_FALSE(map.insert("a", 2));
  CHECK(map.find("a") == 1);
  CHECK(map.insert("", 3));
  CHECK(map.find("") == 3);
  CHECK(map.insert(std::string_view("a\0b", 3), 4));
  CHECK(map.find("a") == 1);
}

}  // namespace
}  // namespace colibri::test

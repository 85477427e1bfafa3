// SPDX-License-Identifier: Apache-2.0
//
// Texts to ids.

#include "lib/tokenizer/token_map.h"

#include <set>
#include <string>
#include <utility>

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

TEST_CASE("each map hashes with its own seed, and takes it along") {
  TokenMap first;
  const TokenMap second;
  CHECK(first.hash("a text") != second.hash("a text"));
  CHECK(first.insert("a text", 1));
  const uint64_t hash = first.hash("a text");
  const TokenMap moved = std::move(first);
  CHECK(moved.hash("a text") == hash);
  CHECK(moved.find("a text") == 1);
}

TEST_CASE("texts whose hashes collide in one map do not collide in another") {
  const TokenMap prepared;
  TokenMap other;
  std::set<uint64_t> slots;
  for (int i = 0, n_found = 0; n_found < 64; ++i) {
    const std::string text = "token" + std::to_string(i);
    if (prepared.hash(text) % 1024 != 0) continue;
    slots.insert(other.hash(text) % 1024);
    REQUIRE(other.insert(text, n_found++));
    REQUIRE(other.find(text) == n_found - 1);
  }
  CHECK(slots.size() > 32);
}

}  // namespace
}  // namespace colibri::test

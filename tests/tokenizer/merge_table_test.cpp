// SPDX-License-Identifier: Apache-2.0
//
// Pairs of ids to merges.

#include "lib/tokenizer/merge_table.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TEST_CASE("a table finds all merges it was given, and no others") {
  MergeTable table;
  CHECK(table.find(1, 2).rank == kNoRank);
  for (int32_t i = 0; i < 3000; ++i) {
    table.set(i, i * 7 % 3000, {static_cast<uint32_t>(i), i + 10});
  }
  CHECK(table.size() == 3000);
  for (int32_t i = 0; i < 3000; ++i) {
    const Merge merge = table.find(i, i * 7 % 3000);
    REQUIRE(merge.rank == static_cast<uint32_t>(i));
    REQUIRE(merge.id == i + 10);
    REQUIRE(table.find(i, i * 7 % 3000 + 1).rank == kNoRank);
  }
  CHECK(table.find(7, 1).rank == kNoRank);
}

TEST_CASE("the last line for a pair wins") {
  MergeTable table;
  table.set(1, 2, {5, 3});
  table.set(1, 2, {9, 4});
  CHECK(table.size() == 1);
  CHECK(table.find(1, 2).rank == 9);
  CHECK(table.find(1, 2).id == 4);
}

}  // namespace
}  // namespace colibri::test

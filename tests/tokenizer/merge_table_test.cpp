// SPDX-License-Identifier: Apache-2.0
//
// Pairs of ids to merges.

#include "lib/tokenizer/merge_table.h"

#include <set>
#include <utility>

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

TEST_CASE("each table hashes with its own numbers, and takes them along") {
  MergeTable first;
  const MergeTable second;
  CHECK(first.hash(1, 2) != second.hash(1, 2));
  CHECK(first.hash(1, 2) != first.hash(2, 1));
  first.set(1, 2, {5, 3});
  const uint64_t hash = first.hash(1, 2);
  const MergeTable moved = std::move(first);
  CHECK(moved.hash(1, 2) == hash);
  CHECK(moved.find(1, 2).rank == 5);
}

TEST_CASE("pairs whose hashes collide in one table do not collide in another") {
  const MergeTable prepared;
  MergeTable other;
  std::set<uint64_t> slots;
  for (int32_t i = 0, n_found = 0; n_found < 64; ++i) {
    const int32_t left = i / 300;
    const int32_t right = i % 300;
    if (prepared.hash(left, right) >> 54 != 0) continue;
    slots.insert(other.hash(left, right) >> 54);
    other.set(left, right, {static_cast<uint32_t>(n_found), n_found});
    REQUIRE(other.find(left, right).id == n_found++);
  }
  CHECK(slots.size() > 16);
}

}  // namespace
}  // namespace colibri::test

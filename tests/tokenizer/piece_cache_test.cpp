// SPDX-License-Identifier: Apache-2.0
//
// The cache of one encode call.

#include "lib/tokenizer/piece_cache.h"

#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TEST_CASE("a cache gives back what was stored, or nothing") {
  PieceCache cache(2);
  std::vector<int32_t> ids = {9};
  CHECK_FALSE(cache.append("a", cache.hash("a"), &ids));
  const int32_t stored[] = {1, 2};
  cache.store("a", cache.hash("a"), stored, 2);
  CHECK(cache.append("a", cache.hash("a"), &ids));
  CHECK(ids == std::vector<int32_t>{9, 1, 2});
  CHECK_FALSE(cache.append("b", cache.hash("a"), &ids));  // same hash, other piece
  cache.store("b", cache.hash("a"), stored, 1);
  CHECK_FALSE(cache.append("a", cache.hash("a"), &ids));
  CHECK(cache.append("b", cache.hash("a"), &ids));
}

TEST_CASE("what is too large for an entry is not stored") {
  PieceCache cache(2);
  std::vector<int32_t> ids;
  const std::vector<int32_t> many(PieceCache::kMaxIds + 1, 7);
  const std::string text(PieceCache::kMaxBytes, 'x');
  cache.store(text, 0, many.data(), many.size());
  CHECK_FALSE(cache.append(text, 0, &ids));
  cache.store(text + "x", 0, many.data(), 1);
  CHECK_FALSE(cache.append(text + "x", 0, &ids));
  cache.store(text, 0, many.data(), PieceCache::kMaxIds);
  CHECK(cache.append(text, 0, &ids));
}

}  // namespace
}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/residency/cache_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

TEST_CASE("the price of experts is the sum of each one's real bytes") {
  const SyntheticModel model(SyntheticShape{{0, 16, 40}, 6, 24});
  const uint64_t small = model.expert_bytes(1);
  const uint64_t large = model.expert_bytes(2);
  REQUIRE(small < large);
  REQUIRE(ExpertCache::packed_expert_bytes(model.sources.layers[1].experts[5]) == small);
  REQUIRE(ExpertCache::largest_packed_expert_bytes(model.sources) == large);
  REQUIRE(ExpertCache::all_packed_experts_bytes(model.sources) == 6 * (small + large));
}

TEST_CASE("staging is counted per loader thread in whole pages") {
  const SyntheticModel model(SyntheticShape{{16, 40}, 2, 24});
  const uint64_t one = ExpertCache::staging_bytes(model.sources, 1);
  REQUIRE(one >= 40 * 24 * sizeof(float));
  REQUIRE(one % 4096 == 0);
  REQUIRE(ExpertCache::staging_bytes(model.sources, 4) == 4 * one);
  REQUIRE(ExpertCache::staging_bytes(model.sources, 0) == one);
}

TEST_CASE("a cache with the price of all experts holds all of them") {
  SyntheticModel model(SyntheticShape{{16, 40}, 6, 24});
  const uint64_t all = ExpertCache::all_packed_experts_bytes(model.sources);
  ExpertCache cache(model.index, model.sources, cache_options(all));
  ExpertCache::Visit visit(cache);
  for (const uint32_t layer : {0u, 1u}) run_visit(visit, layer, {0, 1, 2, 3, 4, 5});
  REQUIRE(cache.stats().resident_bytes == all);
  REQUIRE(cache.stats().evictions == 0);
}

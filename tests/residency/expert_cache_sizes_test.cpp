// SPDX-License-Identifier: Apache-2.0

#include "tests/residency/cache_driver.h"
#include "tests/residency/packed_experts.h"
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

TEST_CASE("packed experts cost their tensors' bytes and no staging") {
  const PackedExperts model(6);
  const uint64_t one = model.experts()[0].slab.bytes;
  REQUIRE(ExpertCache::largest_packed_expert_bytes(model.sources) == one);
  REQUIRE(ExpertCache::all_packed_experts_bytes(model.sources) == 6 * one);
  REQUIRE(ExpertCache::staging_bytes(model.sources, 4) == 0);
}

TEST_CASE("a cache of packed experts hands out each with its weights after one read of its bytes") {
  const PackedExperts model(6);
  const uint64_t one = model.experts()[0].slab.bytes;
  ExpertCache cache(model.index, model.sources, cache_options(3 * one));
  ExpertCache::Visit visit(cache);
  const std::vector<int32_t> wanted = {0, 1, 2, 3, 4, 5};
  visit.begin(0, wanted);
  size_t n_ready = 0;
  for (auto ready = visit.next(); !ready.empty(); ready = visit.next()) {
    for (const ExpertCache::Visit::Ready &item : ready) {
      REQUIRE(item.status.is_ok());
      REQUIRE(has_packed_weights(item.weights, static_cast<uint32_t>(item.expert)));
      ++n_ready;
    }
    visit.release();
  }
  REQUIRE(n_ready == 6);
  REQUIRE(model.control->n_reads() == 6);
  REQUIRE(cache.stats().reads == 6);
  REQUIRE(cache.stats().read_bytes == 6 * one);
}

// SPDX-License-Identifier: Apache-2.0
//
// Several engines at once, changing budgets, closing in the middle: meant for ThreadSanitizer and
// AddressSanitizer, but wrong weights or a hang show in every build.

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/residency/cache_driver.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

struct Random {
  uint64_t state;
  uint32_t next(uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state >> 33) % bound);
  }
};

std::vector<int32_t> random_experts(Random &random, uint32_t n_experts) {
  std::vector<int32_t> experts;
  for (uint32_t expert = 0; expert < n_experts; ++expert) {
    if (random.next(2) == 0) experts.push_back(static_cast<int32_t>(expert));
  }
  return experts;
}

// What one engine found wrong in n_visits random visits.
uint64_t run_engine(ExpertCache &cache, const SyntheticShape &shape, uint64_t seed, int n_visits) {
  Random random{seed};
  ExpertCache::Visit visit(cache);
  uint64_t n_wrong = 0;
  for (int i = 0; i < n_visits; ++i) {
    const uint32_t layer = random.next(static_cast<uint32_t>(shape.layer_widths.size()));
    const std::vector<int32_t> experts = random_experts(random, shape.n_experts);
    if (random.next(10) == 0) {  // begun and abandoned
      visit.begin(layer, experts);
      if (random.next(2) == 0) static_cast<void>(visit.next());
      continue;
    }
    const VisitOutcome outcome = run_visit(visit, layer, experts);
    n_wrong += outcome.n_wrong + outcome.failed.size();
    if (outcome.experts.size() != experts.size()) ++n_wrong;
  }
  return n_wrong;
}

}  // namespace

TEST_CASE("engines in several threads get their own weights while the budget changes") {
  SyntheticModel model(SyntheticShape{{16, 40, 16}, 8, 24});
  const uint64_t largest = model.expert_bytes(1);
  ExpertCache cache(model.index, model.sources, cache_options(largest, 3));
  std::atomic<uint64_t> n_wrong{0};
  std::atomic<bool> is_over{false};
  std::vector<std::thread> engines;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    engines.emplace_back([&, seed] { n_wrong += run_engine(cache, model.shape, seed, 150); });
  }
  std::thread host([&] {
    Random random{99};
    while (!is_over) {
      cache.set_budget(largest * (1 + random.next(12)) + random.next(10'000));
      static_cast<void>(cache.is_resident({1, random.next(8)}));  // may be wrong a moment later
      if (cache.stats().resident_experts > 3 * 8) ++n_wrong;
      std::this_thread::yield();
    }
  });
  for (std::thread &engine : engines) engine.join();
  is_over = true;
  host.join();
  REQUIRE(n_wrong == 0);
  cache.set_budget(largest);
  REQUIRE(cache.stats().resident_bytes <= largest);
  REQUIRE(cache.stats().evictions > 0);
}

TEST_CASE("engines make progress with room for one expert between them") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  ExpertCache cache(model.index, model.sources, cache_options(model.expert_bytes(0), 2));
  std::atomic<uint64_t> n_wrong{0};
  std::vector<std::thread> engines;
  for (uint64_t seed = 11; seed <= 15; ++seed) {
    engines.emplace_back([&, seed] { n_wrong += run_engine(cache, model.shape, seed, 60); });
  }
  for (std::thread &engine : engines) engine.join();
  REQUIRE(n_wrong == 0);
}

TEST_CASE("failing reads among several engines lose nothing for the others") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  model.control->fail_at(model.offset_of({0, 3}, "up"));
  ExpertCache cache(model.index, model.sources, cache_options(2 * model.expert_bytes(0), 3));
  std::atomic<uint64_t> n_wrong{0};
  std::vector<std::thread> engines;
  for (int engine = 0; engine < 4; ++engine) {
    engines.emplace_back([&] {
      ExpertCache::Visit visit(cache);
      for (int i = 0; i < 60; ++i) {
        const VisitOutcome outcome = run_visit(visit, static_cast<uint32_t>(i % 2), {1, 3, 5, 7});
        const std::vector<int32_t> expected =
            i % 2 == 0 ? std::vector<int32_t>{3} : std::vector<int32_t>{};
        if (outcome.failed != expected || outcome.n_wrong != 0) ++n_wrong;
      }
    });
  }
  for (std::thread &engine : engines) engine.join();
  REQUIRE(n_wrong == 0);
}

TEST_CASE("a cache closes a hundred times, also with reads under way") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  for (int i = 0; i < 100; ++i) {
    auto cache = std::make_unique<ExpertCache>(model.index, model.sources,
                                               cache_options(6 * model.expert_bytes(0), 3));
    model.control->hold();
    {
      ExpertCache::Visit visit(*cache);
      visit.begin(0, std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7});
      if (i % 3 == 0) model.control->wait_for_held(3);
      if (i % 3 == 1) model.control->resume();
    }
    // Closing waits for reads that have begun, so another thread lets them go on meanwhile.
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(i * 3));
      model.control->resume();
    });
    cache.reset();
    const uint64_t n_reads = model.control->n_reads();
    release.join();
    REQUIRE(model.control->n_reads() == n_reads);  // no thread is left that could read
  }
}

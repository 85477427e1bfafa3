// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/expert_cache.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <vector>

#include "tests/residency/cache_driver.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using namespace colibri::test;

std::vector<int32_t> sorted(std::vector<int32_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

std::vector<int32_t> first_experts(int32_t n, int32_t first = 0) {
  std::vector<int32_t> experts(static_cast<size_t>(n));
  std::iota(experts.begin(), experts.end(), first);
  return experts;
}

uint64_t reads_of(const SyntheticModel &model, ExpertId id) {
  uint64_t reads = 0;
  for (const char *matrix : {"gate", "up", "down"}) {
    reads = std::max(reads, model.control->n_reads_at(model.offset_of(id, matrix)));
  }
  return reads;
}

}  // namespace

TEST_CASE("every expert is handed out once with its own weights, whatever the budget") {
  SyntheticModel model(SyntheticShape{{0, 16, 40, 16}, 8, 24});
  const uint64_t largest = model.expert_bytes(2);
  const uint64_t all = 8 * (2 * model.expert_bytes(1) + largest);
  for (const uint64_t budget : {largest, largest + 4096, 2 * largest, 5 * largest, all, 2 * all}) {
    for (const uint32_t n_threads : {0u, 1u, 4u}) {
      INFO("budget " << budget << ", " << n_threads << " loader threads");
      ExpertCache cache(model.index, model.sources, cache_options(budget, n_threads));
      ExpertCache::Visit visit(cache);
      for (int round = 0; round < 3; ++round) {
        for (const uint32_t layer : {1u, 2u, 3u}) {
          const std::vector<int32_t> wanted = {7, 0, 3, 5, 1, 2};
          const VisitOutcome outcome = run_visit(visit, layer, wanted);
          REQUIRE(sorted(outcome.experts) == sorted(wanted));
          REQUIRE(outcome.failed.empty());
          REQUIRE(outcome.n_wrong == 0);
          REQUIRE(cache.stats().resident_bytes <= budget);
        }
      }
    }
  }
}

TEST_CASE("within a visit each distinct expert is read once, even with room for one alone") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  const uint64_t bytes = model.expert_bytes(0);
  for (const uint64_t room : {1, 2, 3, 7}) {
    ExpertCache cache(model.index, model.sources, cache_options(room * bytes));
    ExpertCache::Visit visit(cache);
    run_visit(visit, 1, first_experts(4, 2));
    run_visit(visit, 0, first_experts(3));
    model.control->reset_counts();
    run_visit(visit, 1, first_experts(8));
    for (uint32_t expert = 0; expert < 8; ++expert) {
      INFO("room for " << room << ", expert " << expert);
      REQUIRE(reads_of(model, {1, expert}) <= 1);
    }
  }
}

TEST_CASE("an expert moves as one unit: all its matrices are read together or none is") {
  SyntheticModel model(SyntheticShape{{16}, 4, 24});
  ExpertCache cache(model.index, model.sources, cache_options(2 * model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  for (int round = 0; round < 5; ++round) run_visit(visit, 0, first_experts(4));
  for (uint32_t expert = 0; expert < 4; ++expert) {
    const uint64_t gates = model.control->n_reads_at(model.offset_of({0, expert}, "gate"));
    REQUIRE(model.control->n_reads_at(model.offset_of({0, expert}, "up")) == gates);
    REQUIRE(model.control->n_reads_at(model.offset_of({0, expert}, "down")) == gates);
  }
}

TEST_CASE("expert 0 of a fresh cache is a miss, and then the only resident one") {
  SyntheticModel model(SyntheticShape{{16, 16}, 4, 24});
  ExpertCache cache(model.index, model.sources, cache_options(8 * model.expert_bytes(0)));
  REQUIRE_FALSE(cache.is_resident({0, 0}));
  ExpertCache::Visit visit(cache);
  REQUIRE(run_visit(visit, 0, {0}).n_wrong == 0);
  REQUIRE(cache.stats().misses == 1);
  REQUIRE(cache.stats().hits == 0);
  REQUIRE(run_visit(visit, 0, {0}).n_wrong == 0);
  REQUIRE(cache.stats().hits == 1);
  REQUIRE(cache.is_resident({0, 0}));
  REQUIRE_FALSE(cache.is_resident({1, 0}));
  REQUIRE(cache.stats().resident_experts == 1);
}

TEST_CASE("resident experts are handed out while others are still being read") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  ExpertCache cache(model.index, model.sources, cache_options(8 * model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  run_visit(visit, 0, {2, 4});
  model.control->hold();
  visit.begin(0, std::vector<int32_t>{1, 2, 3, 4});
  const auto ready = visit.next();
  REQUIRE(ready.size() == 2);
  REQUIRE(ready[0].expert == 2);
  REQUIRE(ready[1].expert == 4);
  model.control->wait_for_held(
      2);  // both missing ones are being read meanwhile, not one after the other
  model.control->resume();
  visit.release();
  size_t n_more = 0;
  for (auto more = visit.next(); !more.empty(); more = visit.next()) {
    n_more += more.size();
    visit.release();
  }
  REQUIRE(n_more == 2);
  REQUIRE(cache.stats().largest_queue_depth >= 2);
}

TEST_CASE("a layer whose experts are all resident reads nothing") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  ExpertCache cache(model.index, model.sources, cache_options(16 * model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  for (const uint32_t layer : {0u, 1u}) run_visit(visit, layer, first_experts(8));
  const uint64_t read_bytes = cache.stats().read_bytes;
  REQUIRE(read_bytes == 16 * 3 * 16 * 24 * sizeof(float));
  model.control->reset_counts();
  for (int round = 0; round < 3; ++round) {
    for (const uint32_t layer : {0u, 1u}) run_visit(visit, layer, first_experts(8));
  }
  REQUIRE(model.control->n_reads() == 0);
  REQUIRE(cache.stats().read_bytes == read_bytes);
  REQUIRE(cache.stats().reads == 16);
}

TEST_CASE("two visits that need the same expert share one read") {
  SyntheticModel model(SyntheticShape{{16}, 4, 24});
  ExpertCache cache(model.index, model.sources, cache_options(4 * model.expert_bytes(0)));
  ExpertCache::Visit first(cache);
  ExpertCache::Visit second(cache);
  model.control->hold();
  first.begin(0, std::vector<int32_t>{1});
  second.begin(0, std::vector<int32_t>{1});
  model.control->resume();
  for (ExpertCache::Visit *visit : {&first, &second}) {
    const auto ready = visit->next();
    REQUIRE(ready.size() == 1);
    REQUIRE(has_weights_of(ready[0].weights, {0, 1}));
    visit->release();
    REQUIRE(visit->next().empty());
  }
  REQUIRE(reads_of(model, {0, 1}) == 1);
  REQUIRE(cache.stats().misses == 2);
}

TEST_CASE("what a visit holds is never evicted by another one") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  ExpertCache cache(model.index, model.sources, cache_options(3 * model.expert_bytes(0)));
  ExpertCache::Visit holder(cache);
  ExpertCache::Visit other(cache);
  run_visit(holder, 0, {5, 6});
  holder.begin(0, std::vector<int32_t>{5, 6});
  const auto held = holder.next();
  REQUIRE(held.size() == 2);
  REQUIRE(run_visit(other, 1, first_experts(8)).n_wrong == 0);  // through the one slot that is left
  for (const auto &item : held) {
    REQUIRE(has_weights_of(item.weights, {0, static_cast<uint32_t>(item.expert)}));
  }
  holder.release();
  REQUIRE(cache.stats().resident_bytes <= 3 * model.expert_bytes(0));
}

TEST_CASE("the budget counts loads in flight and holds at every read") {
  SyntheticModel model(SyntheticShape{{16, 40}, 8, 24});
  const uint64_t budget = 3 * model.expert_bytes(1);
  ExpertCache cache(model.index, model.sources, cache_options(budget, 4));
  std::atomic<uint64_t> largest_seen{0};
  model.control->set_hook([&] {
    const uint64_t bytes = cache.stats().resident_bytes;
    uint64_t seen = largest_seen.load();
    while (bytes > seen && !largest_seen.compare_exchange_weak(seen, bytes)) {
    }
  });
  ExpertCache::Visit visit(cache);
  for (int round = 0; round < 10; ++round) {  // two disjoint sets in turn
    for (const uint32_t layer : {0u, 1u}) run_visit(visit, layer, first_experts(4, round % 2 * 4));
  }
  model.control->set_hook(nullptr);
  REQUIRE(largest_seen.load() <= budget);
  REQUIRE(largest_seen.load() > 2 * model.expert_bytes(1));
}

TEST_CASE("a working set above the budget uses at least 95 percent of it") {
  SyntheticModel model(SyntheticShape{{16, 16, 40, 16}, 32, 24});
  const uint64_t budget = 20 * model.expert_bytes(2) + 30 * model.expert_bytes(0) + 100;
  ExpertCache cache(model.index, model.sources, cache_options(budget));
  ExpertCache::Visit visit(cache);
  for (int round = 0; round < 12; ++round) {
    for (uint32_t layer = 0; layer < 4; ++layer) {
      run_visit(visit, layer, first_experts(8, round % 4 * 8));
      if (round >= 4) {
        INFO("round " << round << " layer " << layer);
        REQUIRE(cache.stats().resident_bytes <= budget);
        REQUIRE(cache.stats().resident_bytes * 100 >= budget * 95);
      }
    }
  }
}

TEST_CASE("a lowered budget holds at once and for a thousand steps") {
  SyntheticModel model(SyntheticShape{{16, 16}, 16, 24});
  const uint64_t bytes = model.expert_bytes(0);
  ExpertCache cache(model.index, model.sources, cache_options(32 * bytes));
  ExpertCache::Visit visit(cache);
  for (const uint32_t layer : {0u, 1u}) run_visit(visit, layer, first_experts(16));
  REQUIRE(cache.stats().resident_bytes == 32 * bytes);
  cache.set_budget(5 * bytes);
  REQUIRE(cache.stats().resident_bytes <= 5 * bytes);
  REQUIRE(cache.stats().budget_bytes == 5 * bytes);
  for (int step = 0; step < 1000; ++step) {
    run_visit(visit, static_cast<uint32_t>(step % 2),
              {step % 16, (step + 5) % 16, (step + 9) % 16});
    REQUIRE(cache.stats().resident_bytes <= 5 * bytes);
  }
}

TEST_CASE("a budget lowered below what is held is reached when it is released") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  const uint64_t bytes = model.expert_bytes(0);
  ExpertCache cache(model.index, model.sources, cache_options(8 * bytes));
  ExpertCache::Visit visit(cache);
  run_visit(visit, 0, first_experts(6));
  visit.begin(0, first_experts(6));
  const auto held = visit.next();
  REQUIRE(held.size() == 6);
  cache.set_budget(2 * bytes);
  for (const auto &item : held) {
    REQUIRE(has_weights_of(item.weights, {0, static_cast<uint32_t>(item.expert)}));
  }
  visit.release();
  REQUIRE(cache.stats().resident_bytes <= 2 * bytes);
}

TEST_CASE("a raised budget is used") {
  SyntheticModel model(SyntheticShape{{16, 16}, 8, 24});
  const uint64_t bytes = model.expert_bytes(0);
  ExpertCache cache(model.index, model.sources, cache_options(2 * bytes));
  ExpertCache::Visit visit(cache);
  run_visit(visit, 0, first_experts(8));
  REQUIRE(cache.stats().resident_experts == 2);
  cache.set_budget(100 * bytes);
  for (const uint32_t layer : {0u, 1u})
    REQUIRE(run_visit(visit, layer, first_experts(8)).n_wrong == 0);
  REQUIRE(cache.stats().resident_experts == 16);
}

TEST_CASE("a budget below the largest expert is refused with the number that is needed") {
  SyntheticModel model(SyntheticShape{{16, 40}, 4, 24});
  const uint64_t largest = model.expert_bytes(1);
  const auto require_refusal = [&](auto &&action) {
    try {
      action();
      FAIL("a budget below the largest expert was accepted");
    } catch (const Error &error) {
      REQUIRE(error.status().code() == StatusCode::kBudget);
      REQUIRE(std::string(error.what()).find(std::to_string(largest)) != std::string::npos);
      REQUIRE(std::string(error.what()).find(std::to_string(largest - 1)) != std::string::npos);
    }
  };
  require_refusal(
      [&] { const ExpertCache cache(model.index, model.sources, cache_options(largest - 1)); });
  ExpertCache cache(model.index, model.sources, cache_options(largest));
  require_refusal([&] { cache.set_budget(largest - 1); });
  ExpertCache::Visit visit(cache);
  REQUIRE(run_visit(visit, 1, first_experts(4)).n_wrong == 0);
}

TEST_CASE("a budget below one token's working set still hits, where one global list never would") {
  constexpr uint32_t kLayers = 8;
  SyntheticModel model(SyntheticShape{std::vector<uint32_t>(kLayers, 16), 12, 24});
  const uint64_t room = 20;  // a token needs 8 x 4 = 32
  ExpertCache cache(model.index, model.sources, cache_options(room * model.expert_bytes(0), 1));
  ExpertCache::Visit visit(cache);
  for (int token = 0; token < 20; ++token) {
    for (uint32_t layer = 0; layer < kLayers; ++layer) run_visit(visit, layer, {1, 4, 6, 9});
  }
  // Every layer comes back after 28 other experts: among 20 recent ones there is never one of its
  // own.
  const ExpertCacheStats stats = cache.stats();
  REQUIRE(stats.hits + stats.misses == 20 * 32);
  REQUIRE(stats.hits >= 19 * 12);
}

TEST_CASE("more budget never means fewer hits on a trace of tokens") {
  constexpr uint32_t kLayers = 5;
  SyntheticModel model(SyntheticShape{std::vector<uint32_t>(kLayers, 16), 16, 24});
  uint64_t before = 0;
  for (const uint64_t room : {3, 5, 8, 12, 16, 24, 32, 48, 64, 80}) {
    ExpertCache cache(model.index, model.sources, cache_options(room * model.expert_bytes(0), 1));
    ExpertCache::Visit visit(cache);
    uint64_t random = 7;
    for (int token = 0; token < 60; ++token) {
      for (uint32_t layer = 0; layer < kLayers; ++layer) {
        std::vector<int32_t> experts;
        while (experts.size() < 3) {
          random = random * 6364136223846793005u + 1442695040888963407u;
          const auto skewed = static_cast<int32_t>((random >> 60) * ((random >> 40) % 16) / 16);
          if (std::find(experts.begin(), experts.end(), skewed) == experts.end()) {
            experts.push_back(skewed);
          }
        }
        run_visit(visit, layer, experts);
      }
    }
    INFO("room for " << room << ": " << cache.stats().hits << " hits after " << before);
    REQUIRE(cache.stats().hits >= before);
    before = cache.stats().hits;
  }
  REQUIRE(before >= 60 * kLayers * 3 - 16 * kLayers);
}

TEST_CASE("a visit that is abandoned gives everything back and its late reads do no harm") {
  SyntheticModel model(SyntheticShape{{16}, 8, 24});
  ExpertCache cache(model.index, model.sources, cache_options(2 * model.expert_bytes(0)));
  ExpertCache::Visit visit(cache);
  run_visit(visit, 0, {0});
  model.control->hold();
  {
    ExpertCache::Visit dropped(cache);
    dropped.begin(0, first_experts(8));
    REQUIRE(dropped.next().size() == 1);  // expert 0, never released
    visit.begin(0, std::vector<int32_t>{6, 7});
  }
  visit.begin(0, std::vector<int32_t>{3, 1});  // instead of 6 and 7
  model.control->resume();
  size_t n = 0;
  for (auto ready = visit.next(); !ready.empty(); ready = visit.next()) {
    for (const auto &item : ready) {
      REQUIRE((item.expert == 3 || item.expert == 1));
      REQUIRE(has_weights_of(item.weights, {0, static_cast<uint32_t>(item.expert)}));
      ++n;
    }
    visit.release();
  }
  REQUIRE(n == 2);
  REQUIRE(run_visit(visit, 0, first_experts(8)).experts.size() == 8);
}

TEST_CASE("an id that the layer does not have is handed out as a failure, others go on") {
  SyntheticModel model(SyntheticShape{{0, 16}, 4, 24});
  ExpertCache cache(model.index, model.sources, cache_options(4 * model.expert_bytes(1)));
  ExpertCache::Visit visit(cache);
  const VisitOutcome outcome = run_visit(visit, 1, {-1, 2, 4});
  REQUIRE(sorted(outcome.failed) == std::vector<int32_t>{-1, 4});
  REQUIRE(outcome.experts.size() == 3);
  REQUIRE(run_visit(visit, 0, {0}).failed.size() == 1);
  REQUIRE(run_visit(visit, 2, {0}).failed.size() == 1);
  REQUIRE(run_visit(visit, 1, {}).experts.empty());
}

TEST_CASE("a model without routed experts has an empty cache") {
  SyntheticModel model(SyntheticShape{{0, 0}, 4, 24});
  ExpertCache cache(model.index, model.sources, cache_options(0));
  REQUIRE(cache.stats().resident_bytes == 0);
  cache.set_budget(1000);
}

// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/placement.h"

#include <algorithm>
#include <list>
#include <set>
#include <vector>

#include "tests/support/catch.h"

namespace {

using colibri::ExpertId;
using colibri::PlacementPolicy;

constexpr uint64_t kExpertBytes = 100;

struct Random {
  uint64_t state = 1;
  uint32_t next(uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>((state >> 33) % bound);
  }
};

PlacementPolicy make_policy(uint32_t n_layers, uint32_t n_experts, uint64_t budget_experts) {
  const std::vector<uint64_t> layer_bytes(n_layers, n_experts * kExpertBytes);
  return PlacementPolicy(layer_bytes, n_experts, budget_experts * kExpertBytes);
}

// The policy as the cache uses it, one visit at a time, with experts of one size.
class Simulation {
 public:
  Simulation(uint32_t n_layers, uint32_t n_experts, uint64_t budget_experts)
      : policy(make_policy(n_layers, n_experts, budget_experts)),
        resident_(n_layers, std::vector<bool>(n_experts)) {}

  // The experts must fit the budget. Returns hits.
  uint64_t visit(uint32_t layer, const std::vector<uint32_t> &experts) {
    uint64_t hits = 0;
    std::vector<uint32_t> missing;
    for (const uint32_t expert : experts) {
      if (resident_[layer][expert]) {
        policy.pin({layer, expert});
        ++hits;
      } else {
        missing.push_back(expert);
      }
    }
    for (const uint32_t expert : missing) {
      ExpertId victim;
      while (policy.used_bytes() + kExpertBytes > policy.budget_bytes()) {
        REQUIRE(policy.choose_victim(layer, &victim));
        REQUIRE(resident_[victim.layer][victim.expert]);
        policy.remove(victim);
        resident_[victim.layer][victim.expert] = false;
      }
      policy.insert({layer, expert}, kExpertBytes);
      policy.pin({layer, expert});
      resident_[layer][expert] = true;
    }
    for (const uint32_t expert : experts) policy.unpin({layer, expert});
    return hits;
  }

  PlacementPolicy policy;

 private:
  std::vector<std::vector<bool>> resident_;
};

using Token = std::vector<std::vector<uint32_t>>;  // per layer the distinct experts

// Per layer a slowly drifting set of favourites, as real routing shows, plus strangers.
std::vector<Token> make_trace(uint32_t n_tokens, uint32_t n_layers, uint32_t n_experts,
                              uint32_t top_k) {
  Random random;
  std::vector<Token> trace;
  for (uint32_t t = 0; t < n_tokens; ++t) {
    Token token(n_layers);
    for (uint32_t layer = 0; layer < n_layers; ++layer) {
      std::set<uint32_t> chosen;
      while (chosen.size() < top_k) {
        const uint32_t favourite = random.next(1 + random.next(n_experts));  // skewed to low ids
        chosen.insert((favourite + layer * 5 + t / 50) % n_experts);
      }
      token[layer].assign(chosen.begin(), chosen.end());
    }
    trace.push_back(token);
  }
  return trace;
}

uint64_t count_hits(const std::vector<Token> &trace, uint32_t n_experts, uint64_t budget_experts) {
  Simulation simulation(static_cast<uint32_t>(trace[0].size()), n_experts, budget_experts);
  uint64_t hits = 0;
  for (const Token &token : trace) {
    for (uint32_t layer = 0; layer < token.size(); ++layer)
      hits += simulation.visit(layer, token[layer]);
  }
  return hits;
}

// One list for all layers, the thing that must not be built.
uint64_t count_global_lru_hits(const std::vector<Token> &trace, uint64_t budget_experts) {
  std::list<std::pair<uint32_t, uint32_t>> order;
  uint64_t hits = 0;
  for (const Token &token : trace) {
    for (uint32_t layer = 0; layer < token.size(); ++layer) {
      for (const uint32_t expert : token[layer]) {
        const auto found = std::find(order.begin(), order.end(), std::pair(layer, expert));
        if (found != order.end()) {
          ++hits;
          order.erase(found);
        }
        order.emplace_front(layer, expert);
        if (order.size() > budget_experts) order.pop_back();
      }
    }
  }
  return hits;
}

}  // namespace

TEST_CASE("an expert id is invalid until set, so an empty place is never expert 0 of layer 0") {
  REQUIRE_FALSE(ExpertId() == ExpertId{0, 0});
  PlacementPolicy policy = make_policy(2, 4, 4);
  ExpertId victim;
  REQUIRE_FALSE(policy.choose_victim(0, &victim));
}

TEST_CASE("a layer above its share gives up its least recently used expert first") {
  PlacementPolicy policy = make_policy(2, 8, 8);  // share: 4 each
  for (uint32_t expert = 0; expert < 6; ++expert) policy.insert({0, expert}, kExpertBytes);
  policy.touch({0, 0});
  policy.insert({1, 0}, kExpertBytes);
  ExpertId victim;
  REQUIRE(policy.choose_victim(1, &victim));
  REQUIRE(victim == ExpertId{0, 1});
}

TEST_CASE("a layer at its share replaces within itself") {
  PlacementPolicy policy = make_policy(2, 8, 8);
  for (uint32_t expert = 0; expert < 4; ++expert) policy.insert({0, expert}, kExpertBytes);
  for (uint32_t expert = 0; expert < 4; ++expert) policy.insert({1, expert}, kExpertBytes);
  policy.touch({1, 0});
  ExpertId victim;
  REQUIRE(policy.choose_victim(1, &victim));
  REQUIRE(victim == ExpertId{1, 1});
}

TEST_CASE("of several layers above their share the one used last gives first") {
  PlacementPolicy policy = make_policy(4, 8, 8);  // share: 2 each
  for (uint32_t expert = 0; expert < 3; ++expert) policy.insert({0, expert}, kExpertBytes);
  for (uint32_t expert = 0; expert < 3; ++expert) policy.insert({1, expert}, kExpertBytes);
  ExpertId victim;
  REQUIRE(policy.choose_victim(3, &victim));
  REQUIRE(victim.layer == 1);
  policy.pin({0, 1});
  policy.unpin({0, 1});
  REQUIRE(policy.choose_victim(3, &victim));
  REQUIRE(victim == ExpertId{0, 0});
}

TEST_CASE("a pinned expert is never a victim, and pins nest") {
  PlacementPolicy policy = make_policy(1, 4, 2);
  policy.insert({0, 0}, kExpertBytes);
  policy.pin({0, 0});
  policy.pin({0, 0});
  ExpertId victim;
  REQUIRE_FALSE(policy.choose_victim(0, &victim));
  REQUIRE(policy.pinned_bytes() == kExpertBytes);
  REQUIRE(policy.can_fit(kExpertBytes));
  REQUIRE_FALSE(policy.can_fit(kExpertBytes + 1));
  policy.unpin({0, 0});
  REQUIRE_FALSE(policy.choose_victim(PlacementPolicy::kNoLayer, &victim));
  policy.unpin({0, 0});
  REQUIRE(policy.choose_victim(PlacementPolicy::kNoLayer, &victim));
  REQUIRE(victim == ExpertId{0, 0});
  REQUIRE(policy.can_fit(2 * kExpertBytes));
}

TEST_CASE("another layer's expert goes when the asking layer has only pinned ones") {
  PlacementPolicy policy = make_policy(2, 8, 4);
  policy.insert({0, 0}, kExpertBytes);
  policy.insert({1, 0}, kExpertBytes);
  policy.pin({1, 0});
  ExpertId victim;
  REQUIRE(policy.choose_victim(1, &victim));
  REQUIRE(victim == ExpertId{0, 0});
}

TEST_CASE("shares follow the bytes of a layer's experts, and a layer without experts has none") {
  const std::vector<uint64_t> layer_bytes = {0, 1000, 3000};
  PlacementPolicy policy(layer_bytes, 10, 2000);
  REQUIRE(policy.share_bytes(0) == 0);
  REQUIRE(policy.share_bytes(1) == 500);
  REQUIRE(policy.share_bytes(2) == 1500);
  policy.set_budget(1'000'000);
  REQUIRE(policy.share_bytes(1) == 1000);
  REQUIRE(policy.share_bytes(2) == 3000);
}

TEST_CASE("used bytes are those of what is there, per layer and in all") {
  PlacementPolicy policy = make_policy(2, 4, 8);
  policy.insert({0, 1}, 70);
  policy.insert({1, 1}, 50);
  policy.insert({1, 2}, 20);
  REQUIRE(policy.used_bytes() == 140);
  REQUIRE(policy.used_bytes(1) == 70);
  policy.remove({1, 1});
  REQUIRE(policy.used_bytes() == 90);
  REQUIRE(policy.used_bytes(1) == 20);
}

TEST_CASE("a lowered budget makes layers give up what is now above their share") {
  PlacementPolicy policy = make_policy(2, 8, 8);
  for (uint32_t expert = 0; expert < 4; ++expert) policy.insert({0, expert}, kExpertBytes);
  policy.insert({1, 0}, kExpertBytes);
  policy.set_budget(4 * kExpertBytes);  // share: 2 each
  ExpertId victim;
  REQUIRE(policy.choose_victim(PlacementPolicy::kNoLayer, &victim));
  REQUIRE(victim == ExpertId{0, 0});
}

TEST_CASE("a budget below one token's working set keeps hits where one global list has none") {
  // Every token needs the same 4 of 16 experts in each of 12 layers: 48 in all, room for 30.
  std::vector<Token> trace(50, Token(12, {2, 5, 7, 11}));
  REQUIRE(count_global_lru_hits(trace, 30) == 0);
  const uint64_t hits = count_hits(trace, 16, 30);
  REQUIRE(hits >= 49u * 20u);             // most of the 30 that could be hit
  REQUIRE(count_hits(trace, 16, 6) > 0);  // even with less than one expert a layer
}

TEST_CASE("more budget never means fewer hits on the trace") {
  const std::vector<Token> trace = make_trace(400, 8, 32, 4);
  uint64_t before = 0;
  for (uint64_t budget = 4; budget <= 8 * 32; budget += 4) {
    const uint64_t hits = count_hits(trace, 32, budget);
    INFO("budget of " << budget << " experts: " << hits << " hits after " << before);
    REQUIRE(hits >= before);
    before = hits;
  }
  // With room for all, each expert misses once.
  REQUIRE(before >= 400u * 8 * 4 - 8 * 32);
}

TEST_CASE("the cost of a victim does not grow with the cache") {
  for (const uint64_t budget : {uint64_t{8}, uint64_t{4096}}) {
    PlacementPolicy policy = make_policy(64, 128, budget);
    uint64_t n_choices = 0;
    for (uint32_t i = 0; i < 40'000; ++i) {
      const ExpertId id{i / 4 % 64, i / 256 * 4 % 128 + i % 4};  // 4 a layer, layer after layer
      ExpertId victim;
      while (policy.used_bytes() == policy.budget_bytes()) {
        REQUIRE(policy.choose_victim(id.layer, &victim));
        policy.remove(victim);
        ++n_choices;
      }
      if (budget == 8 || i < 64 * 128) policy.insert(id, kExpertBytes);
    }
    INFO("budget of " << budget << " experts, " << n_choices << " choices");
    REQUIRE(n_choices >= 4000);
    REQUIRE(policy.n_lists_examined() <= 3 * n_choices);
  }
}

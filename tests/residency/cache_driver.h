// SPDX-License-Identifier: Apache-2.0
//
// Visits as an engine makes them, with what came out of them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/residency/expert_cache.h"
#include "tests/residency/synthetic_experts.h"

namespace colibri::test {

struct VisitOutcome {
  std::vector<int32_t> experts;  // in the order in which they came
  std::vector<int32_t> failed;
  std::vector<std::string> messages;  // of the failed ones
  uint64_t n_wrong = 0;               // experts whose weights are not theirs
};

// One whole visit. Does not use the test framework, so that threads may call it.
inline VisitOutcome run_visit(ExpertCache::Visit &visit, uint32_t layer,
                              const std::vector<int32_t> &experts) {
  VisitOutcome outcome;
  visit.begin(layer, experts);
  for (auto ready = visit.next(); !ready.empty(); ready = visit.next()) {
    for (const ExpertCache::Visit::Ready &item : ready) {
      outcome.experts.push_back(item.expert);
      if (!item.status.is_ok()) {
        outcome.failed.push_back(item.expert);
        outcome.messages.emplace_back(item.status.message());
      } else if (!has_weights_of(item.weights, {layer, static_cast<uint32_t>(item.expert)})) {
        ++outcome.n_wrong;
      }
    }
    visit.release();
  }
  return outcome;
}

inline ExpertCacheOptions cache_options(uint64_t budget_bytes, uint32_t n_loader_threads = 3) {
  ExpertCacheOptions options;
  options.budget_bytes = budget_bytes;
  options.n_loader_threads = n_loader_threads;
  return options;
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// What experts cost, for the planner: sums over real packed bytes of each expert, never a count
// times the widest format.

#include <algorithm>

#include "lib/base/checked_math.h"
#include "lib/residency/expert_cache.h"
#include "lib/residency/expert_layout.h"

namespace colibri {

uint64_t ExpertCache::packed_expert_bytes(const ExpertSource &source) noexcept {
  return packed_bytes(source);
}

uint64_t ExpertCache::largest_packed_expert_bytes(const ModelSources &sources) noexcept {
  uint64_t largest = 0;
  for (const LayerSources &layer : sources.layers) {
    for (const ExpertSource &expert : layer.experts) {
      largest = std::max(largest, packed_bytes(expert));
    }
  }
  return largest;
}

uint64_t ExpertCache::all_packed_experts_bytes(const ModelSources &sources) noexcept {
  uint64_t sum = 0;
  for (const LayerSources &layer : sources.layers) {
    for (const ExpertSource &expert : layer.experts) sum += packed_bytes(expert);
  }
  return sum;
}

uint64_t ExpertCache::staging_bytes(const ModelSources &sources,
                                    uint32_t n_loader_threads) noexcept {
  uint64_t largest = 0;
  for (const LayerSources &layer : sources.layers) {
    for (const ExpertSource &expert : layer.experts) {
      largest = std::max(largest, colibri::staging_bytes(expert));
    }
  }
  return divide_up(largest, kPageBytes) * kPageBytes * std::max(n_loader_threads, 1u);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Which expert leaves when room is needed: the policy alone, without memory, threads or files.
//
// Every layer is visited once per token, so recency says nothing between layers. Each layer therefore has a fair
// share of the budget in bytes; a layer above its share gives up its own least recently used expert first, a
// layer that asks while at or above its share replaces within itself. So a budget below one token's
// working set still keeps hits, where one global list would have none. All operations are O(1).

#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

struct ExpertId {
  uint32_t layer = UINT32_MAX;  // no valid id by default
  uint32_t expert = UINT32_MAX;
  friend bool operator==(const ExpertId &, const ExpertId &) = default;
};

class PlacementPolicy {
 public:
  PlacementPolicy(uint32_t n_layers, uint32_t n_experts, uint64_t budget_bytes);

  void set_budget(uint64_t budget_bytes) noexcept;
  // The expert became resident (or is being read) and takes `bytes`.
  void insert(ExpertId id, uint64_t bytes) noexcept;
  void remove(ExpertId id) noexcept;
  void touch(ExpertId id) noexcept;               // used now
  void set_pinned(ExpertId id, bool pinned) noexcept;  // pinned: never a victim; counts nest up to 2^32
  uint64_t used_bytes() const noexcept;
  uint64_t used_bytes(uint32_t layer) const noexcept;
  // The expert to give up so that `layer` can take `bytes` more; false if everything that could go is pinned.
  bool choose_victim(uint32_t layer, ExpertId *victim) noexcept;

 private:
  struct Entry;
  struct Layer;
  std::vector<Entry> entries_;
  std::vector<Layer> layers_;
  uint64_t budget_bytes_ = 0;
  uint64_t used_bytes_ = 0;
};

}  // namespace colibri

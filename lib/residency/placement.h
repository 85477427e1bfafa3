// SPDX-License-Identifier: Apache-2.0
//
// Which expert leaves when room is needed: the policy alone, without memory, threads or files.
//
// Every layer is visited once per token, so recency says nothing between layers. Each layer
// therefore has a fair share of the budget, in proportion to the bytes of all its experts; a layer
// above its share gives up its own least recently used expert first, a layer that asks while at or
// above its share replaces within itself. So a budget below one token's working set still keeps
// hits, where one global list would have none. All operations are O(1) but set_budget(), which is
// O(layers).

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colibri {

struct ExpertId {
  uint32_t layer = UINT32_MAX;  // no valid id by default
  uint32_t expert = UINT32_MAX;
  friend bool operator==(const ExpertId &, const ExpertId &) = default;
};

class PlacementPolicy {
 public:
  static constexpr uint32_t kNoLayer = UINT32_MAX;

  // layer_bytes: for each layer what all its experts would take together; 0 for a layer without.
  PlacementPolicy(std::span<const uint64_t> layer_bytes, uint32_t n_experts, uint64_t budget_bytes);

  void set_budget(uint64_t budget_bytes) noexcept;
  uint64_t budget_bytes() const noexcept { return budget_bytes_; }
  uint64_t share_bytes(uint32_t layer) const noexcept { return layers_[layer].share_bytes; }

  // The expert became resident (or is being read) and takes `bytes` > 0. It is not pinned.
  void insert(ExpertId id, uint64_t bytes) noexcept;
  // The expert is gone. It must not be pinned.
  void remove(ExpertId id) noexcept;
  // Used now.
  void touch(ExpertId id) noexcept;
  // Pinned: never a victim; pins nest. The last unpin counts as a use.
  void pin(ExpertId id) noexcept;
  void unpin(ExpertId id) noexcept;

  uint64_t used_bytes() const noexcept { return used_bytes_; }
  uint64_t used_bytes(uint32_t layer) const noexcept { return layers_[layer].used_bytes; }
  uint64_t pinned_bytes() const noexcept { return pinned_bytes_; }
  // Whether `bytes` more fit the budget once every expert that is not pinned has gone.
  bool can_fit(uint64_t bytes) const noexcept;
  // The expert to give up so that `layer` can take more, or, with kNoLayer, so that less is used;
  // false if all are pinned.
  bool choose_victim(uint32_t layer, ExpertId *victim) noexcept;
  // Lists that choose_victim() has looked into so far; a test proves that the cost of a choice does
  // not grow with the cache.
  uint64_t n_lists_examined() const noexcept { return n_lists_examined_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Links {
    uint32_t newer = kNone;
    uint32_t older = kNone;
  };
  // A doubly linked list through the Links of a vector's elements.
  struct List {
    uint32_t newest = kNone;
    uint32_t oldest = kNone;
  };
  struct Entry {
    Links links;  // in its layer's list while present and not pinned
    uint32_t n_pins = 0;
    uint64_t bytes = 0;  // 0: not present
  };
  enum class Standing : uint8_t { kAllPinned, kWithinShare, kAboveShare };
  struct Layer {
    Links links;                               // in the list of its standing
    List experts;                              // that are not pinned, by last use
    Standing standing = Standing::kAllPinned;  // kAllPinned: nothing to give; in no list
    uint64_t all_bytes = 0;
    uint64_t share_bytes = 0;
    uint64_t used_bytes = 0;  // pinned ones included
  };

  template <typename Element>
  static void push_newest(std::vector<Element> &elements, List &list, uint32_t index) noexcept;
  template <typename Element>
  static void unlink(std::vector<Element> &elements, List &list, uint32_t index) noexcept;
  uint32_t entry_index(ExpertId id) const noexcept { return id.layer * n_experts_ + id.expert; }
  // Puts the layer into the list that its numbers now ask for.
  void file_layer(uint32_t layer) noexcept;

  uint32_t n_experts_;
  std::vector<Entry> entries_;  // [layer][expert]
  std::vector<Layer> layers_;
  List above_share_;  // layers with an expert to give, by last use
  List within_share_;
  uint64_t all_bytes_ = 0;
  uint64_t budget_bytes_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t pinned_bytes_ = 0;
  uint64_t n_lists_examined_ = 0;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Two levels of lists. Each layer lists its experts that are not pinned by last use. Layers that
// have such an expert stand in one of two lists: above their share, or within it. Among layers
// above their share the one that was used last gives first: it has just been visited, so its next
// turn is the farthest away.

#include "lib/residency/placement.h"

#include <cassert>

namespace colibri {

PlacementPolicy::PlacementPolicy(std::span<const uint64_t> layer_bytes, uint32_t n_experts,
                                 uint64_t budget_bytes)
    : n_experts_(n_experts), entries_(layer_bytes.size() * n_experts), layers_(layer_bytes.size()) {
  for (size_t layer = 0; layer < layer_bytes.size(); ++layer) {
    layers_[layer].all_bytes = layer_bytes[layer];
    all_bytes_ += layer_bytes[layer];
  }
  set_budget(budget_bytes);
}

void PlacementPolicy::set_budget(uint64_t budget_bytes) noexcept {
  budget_bytes_ = budget_bytes;
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
    // Byte counts of real models are below 2^53 and a share need not be exact to the byte.
    const double part = all_bytes_ == 0 ? 0.0
                                        : static_cast<double>(layers_[layer].all_bytes) /
                                              static_cast<double>(all_bytes_);
    layers_[layer].share_bytes =
        budget_bytes >= all_bytes_
            ? layers_[layer].all_bytes
            : static_cast<uint64_t>(static_cast<double>(budget_bytes) * part);
    file_layer(layer);
  }
}

void PlacementPolicy::insert(ExpertId id, uint64_t bytes) noexcept {
  const uint32_t index = entry_index(id);
  assert(entries_[index].bytes == 0 && bytes > 0);
  entries_[index].bytes = bytes;
  push_newest(entries_, layers_[id.layer].experts, index);
  layers_[id.layer].used_bytes += bytes;
  used_bytes_ += bytes;
  file_layer(id.layer);
}

void PlacementPolicy::remove(ExpertId id) noexcept {
  const uint32_t index = entry_index(id);
  Entry &entry = entries_[index];
  assert(entry.bytes != 0 && entry.n_pins == 0);
  unlink(entries_, layers_[id.layer].experts, index);
  layers_[id.layer].used_bytes -= entry.bytes;
  used_bytes_ -= entry.bytes;
  entry.bytes = 0;
  file_layer(id.layer);
}

void PlacementPolicy::touch(ExpertId id) noexcept {
  const uint32_t index = entry_index(id);
  if (entries_[index].bytes == 0 || entries_[index].n_pins != 0) return;
  unlink(entries_, layers_[id.layer].experts, index);
  push_newest(entries_, layers_[id.layer].experts, index);
}

void PlacementPolicy::pin(ExpertId id) noexcept {
  const uint32_t index = entry_index(id);
  Entry &entry = entries_[index];
  assert(entry.bytes != 0 && entry.n_pins != UINT32_MAX);
  if (entry.n_pins++ != 0) return;
  unlink(entries_, layers_[id.layer].experts, index);
  pinned_bytes_ += entry.bytes;
  file_layer(id.layer);
}

void PlacementPolicy::unpin(ExpertId id) noexcept {
  const uint32_t index = entry_index(id);
  Entry &entry = entries_[index];
  assert(entry.bytes != 0 && entry.n_pins != 0);
  if (--entry.n_pins != 0) return;
  push_newest(entries_, layers_[id.layer].experts, index);
  pinned_bytes_ -= entry.bytes;
  file_layer(id.layer);
  if (layers_[id.layer].standing == Standing::kAboveShare) {  // it is the one visited last
    unlink(layers_, above_share_, id.layer);
    push_newest(layers_, above_share_, id.layer);
  }
}

bool PlacementPolicy::can_fit(uint64_t bytes) const noexcept {
  return pinned_bytes_ <= budget_bytes_ && bytes <= budget_bytes_ - pinned_bytes_;
}

bool PlacementPolicy::choose_victim(uint32_t layer, ExpertId *victim) noexcept {
  uint32_t giver = kNone;
  const bool can_replace = layer != kNoLayer && layers_[layer].experts.oldest != kNone;
  ++n_lists_examined_;
  if (can_replace && layers_[layer].used_bytes >= layers_[layer].share_bytes) {
    giver = layer;
  } else if (++n_lists_examined_; above_share_.newest != kNone) {
    giver = above_share_.newest;
  } else if (can_replace) {
    giver = layer;
  } else if (++n_lists_examined_; within_share_.newest != kNone) {
    giver = within_share_.newest;
  } else {
    return false;
  }
  *victim = ExpertId{giver, layers_[giver].experts.oldest - giver * n_experts_};
  return true;
}

void PlacementPolicy::file_layer(uint32_t layer) noexcept {
  Layer &subject = layers_[layer];
  Standing standing = Standing::kAllPinned;
  if (subject.experts.oldest != kNone) {
    standing =
        subject.used_bytes > subject.share_bytes ? Standing::kAboveShare : Standing::kWithinShare;
  }
  if (standing == subject.standing) return;
  if (subject.standing == Standing::kAboveShare) unlink(layers_, above_share_, layer);
  if (subject.standing == Standing::kWithinShare) unlink(layers_, within_share_, layer);
  if (standing == Standing::kAboveShare) push_newest(layers_, above_share_, layer);
  if (standing == Standing::kWithinShare) push_newest(layers_, within_share_, layer);
  subject.standing = standing;
}

template <typename Element>
void PlacementPolicy::push_newest(std::vector<Element> &elements, List &list,
                                  uint32_t index) noexcept {
  elements[index].links = Links{kNone, list.newest};
  if (list.newest != kNone) elements[list.newest].links.newer = index;
  if (list.oldest == kNone) list.oldest = index;
  list.newest = index;
}

template <typename Element>
void PlacementPolicy::unlink(std::vector<Element> &elements, List &list, uint32_t index) noexcept {
  const Links links = elements[index].links;
  if (links.newer != kNone) elements[links.newer].links.older = links.older;
  if (links.older != kNone) elements[links.older].links.newer = links.newer;
  if (list.newest == index) list.newest = links.older;
  if (list.oldest == index) list.oldest = links.newer;
  elements[index].links = Links{};
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// MergeTable: which two neighbouring ids merge, in which order, into what. A flat table keyed by
// the pair. A lower rank merges first. Pairs come from an untrusted file: each table hashes with
// secret numbers of its own, so that nobody can prepare pairs that collide.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/snapshot/hash.h"

namespace colibri {

struct Merge {
  uint32_t rank;
  int32_t id;  // of the joined text
};

constexpr uint32_t kNoRank = UINT32_MAX;

class MergeTable {
 public:
  void reserve(size_t n_merges);
  // A pair that is already there gets the new rank, as a later line of a merge list wins. Ids are
  // >= 0.
  void set(int32_t left, int32_t right, Merge merge);
  // rank kNoRank if the pair does not merge.
  Merge find(int32_t left, int32_t right) const noexcept;
  size_t size() const noexcept { return n_merges_; }
  // Differs from table to table and from run to run; a copy keeps it.
  uint64_t hash(int32_t left, int32_t right) const noexcept { return hash(make_key(left, right)); }

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge{kNoRank, -1};
  };
  static constexpr uint64_t kFree = UINT64_MAX;
  static constexpr uint64_t make_key(int32_t left, int32_t right) noexcept {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // One multiplication, as this is the innermost step of encoding. The factor is secret too: with a
  // known one, pairs could be chosen whose hashes agree for many seeds.
  uint64_t hash(uint64_t key) const noexcept { return fold_multiply(key ^ seed_, factor_); }
  size_t find_slot(uint64_t key, uint64_t pair_hash) const noexcept;
  void grow(size_t n_slots);

  uint64_t seed_ = hash_bytes({}, reinterpret_cast<uintptr_t>(this));
  uint64_t factor_ = hash_bytes({}, seed_) | 1;
  std::vector<Slot> slots_;       // a power of two, at most 3/4 used
  std::vector<uint64_t> filter_;  // bit per hash: most pairs of a text do not merge and end here
  int slot_shift_ = 64;           // the upper bits of a hash choose the slot
  int filter_shift_ = 64;
  size_t n_merges_ = 0;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// TokenMap: exact text to id, in one flat table. It keeps its own copy of the texts, so it outlives
// the file it was filled from. That file is not trusted: each map hashes with a seed of its own, so
// that nobody can prepare texts that collide.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/snapshot/hash.h"

namespace colibri {

class TokenMap {
 public:
  // Room for texts with n_bytes in all; more may be inserted.
  void reserve(size_t n_texts, size_t n_bytes);
  // False, and nothing changed, if `text` already has an id. Texts are together below 4 GiB;
  // id >= 0.
  bool insert(std::string_view text, int32_t id);
  // -1 if absent.
  int32_t find(std::string_view text) const noexcept;
  size_t size() const noexcept { return n_texts_; }
  // Differs from map to map and from run to run; a copy keeps it.
  uint64_t hash(std::string_view text) const noexcept { return hash_bytes(text, seed_); }

 private:
  struct Slot {
    uint32_t hash;
    int32_t id = -1;  // -1: free
    uint32_t offset;
    uint32_t length;
  };
  size_t find_slot(std::string_view text, uint32_t text_hash) const noexcept;
  void grow(size_t n_slots);

  uint64_t seed_ = hash_bytes({}, reinterpret_cast<uintptr_t>(this));
  std::string texts_;
  std::vector<Slot> slots_;  // a power of two, at most 3/4 used
  size_t n_texts_ = 0;
};

}  // namespace colibri

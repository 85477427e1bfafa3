// SPDX-License-Identifier: Apache-2.0
//
// TokenMap: exact text to id, in one flat table. It keeps its own copy of the texts, so it outlives
// the file it was filled from. hash_text is shared with the piece cache.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

uint64_t hash_text(std::string_view text) noexcept;

class TokenMap {
 public:
  // Room for texts with n_bytes in all; more may be inserted.
  void reserve(size_t n_texts, size_t n_bytes);
  // False, and nothing changed, if `text` already has an id. Texts are together below 4 GiB; id >=
  // 0.
  bool insert(std::string_view text, int32_t id);
  // -1 if absent.
  int32_t find(std::string_view text) const noexcept;
  size_t size() const noexcept { return n_texts_; }

 private:
  struct Slot {
    uint32_t hash;
    int32_t id = -1;  // -1: free
    uint32_t offset;
    uint32_t length;
  };
  size_t find_slot(std::string_view text, uint32_t hash) const noexcept;
  void grow(size_t n_slots);

  std::string texts_;
  std::vector<Slot> slots_;  // a power of two, at most 3/4 used
  size_t n_texts_ = 0;
};

}  // namespace colibri

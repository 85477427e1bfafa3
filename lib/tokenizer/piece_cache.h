// SPDX-License-Identifier: Apache-2.0
//
// PieceCache: ids of pieces seen before in the same encode call. Of fixed size and direct-mapped: a
// new piece takes the place of the one with the same hash, so no text can make it grow. Hashes are
// seeded per cache, so that no text is prepared to make it useless.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/snapshot/hash.h"

namespace colibri {

class PieceCache {
 public:
  static constexpr size_t kMaxBytes = 26;
  static constexpr size_t kMaxIds = 8;

  explicit PieceCache(size_t n_entries) : entries_(n_entries) {}  // a power of two

  uint64_t hash(std::string_view piece) const noexcept { return hash_bytes(piece, seed_); }

  // Appends the ids of the piece, whose hash is given here and below, if they are known.
  bool append(std::string_view piece, uint64_t piece_hash, std::vector<int32_t> *ids) const {
    const Entry &entry = entries_[piece_hash & (entries_.size() - 1)];
    if (entry.hash != static_cast<uint32_t>(piece_hash >> 32) || entry.n_bytes != piece.size() ||
        std::memcmp(entry.bytes, piece.data(), piece.size()) != 0) {
      return false;
    }
    ids->insert(ids->end(), entry.ids, entry.ids + entry.n_ids);
    return true;
  }

  // Pieces of more than kMaxBytes or kMaxIds are not kept.
  void store(std::string_view piece, uint64_t piece_hash, const int32_t *ids, size_t n_ids) {
    if (piece.size() > kMaxBytes || n_ids > kMaxIds) return;
    Entry &entry = entries_[piece_hash & (entries_.size() - 1)];
    entry.hash = static_cast<uint32_t>(piece_hash >> 32);
    entry.n_bytes = static_cast<uint8_t>(piece.size());
    entry.n_ids = static_cast<uint8_t>(n_ids);
    std::memcpy(entry.bytes, piece.data(), piece.size());
    std::copy_n(ids, n_ids, entry.ids);  // ids may be null when there are none
  }

 private:
  struct Entry {  // one cache line
    uint32_t hash = 0;
    uint8_t n_bytes = 0;  // 0: free, as no piece is empty
    uint8_t n_ids = 0;
    char bytes[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  uint64_t seed_ = hash_bytes({}, reinterpret_cast<uintptr_t>(this));
  std::vector<Entry> entries_;
};

}  // namespace colibri

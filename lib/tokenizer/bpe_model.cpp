// SPDX-License-Identifier: Apache-2.0
//
// The merge loops. Short pieces are scanned for the lowest rank again and again, which needs two
// small arrays and nothing else; long ones use a heap and a linked list.

#include "lib/tokenizer/bpe_model.h"

#include <algorithm>
#include <functional>

#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_alphabet.h"

namespace colibri {
namespace {

// From this many symbols on the heap is used: its cost grows less than the square of the scan.
constexpr size_t kLongPiece = 24;
constexpr uint32_t kEnd = UINT32_MAX;

void push_candidate(uint32_t rank, uint32_t position, std::vector<uint64_t> *heap) {
  if (rank == kNoRank) return;
  heap->push_back(static_cast<uint64_t>(rank) << 32 | position);
  std::push_heap(heap->begin(), heap->end(), std::greater<>());
}

}  // namespace

void BpeModel::encode_piece(std::string_view piece, BpeScratch *scratch,
                            std::vector<int32_t> *ids) const {
  if (piece.empty()) return;
  if (ignores_merges_) {
    const int32_t id = (is_byte_level_ ? pieces_ : spellings_).find(piece);
    if (id >= 0) {
      ids->push_back(id);
      return;
    }
  }
  scratch->ids.clear();
  if (is_byte_level_) {
    split_into_bytes(piece, &scratch->ids);
  } else {
    split_into_characters(piece, &scratch->ids);
  }
  if (scratch->ids.size() < kLongPiece) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  ids->insert(ids->end(), scratch->ids.begin(), scratch->ids.end());
}

void BpeModel::split_into_bytes(std::string_view piece, std::vector<int32_t> *ids) const {
  int32_t pending = -1;
  for (const char c : piece) {
    const int32_t id = byte_symbols_[static_cast<uint8_t>(c)];
    if (id >= 0) {
      if (pending >= 0) ids->push_back(pending);
      pending = -1;
      ids->push_back(id);
    } else {
      std::string spelling;
      append_utf8(byte_to_letter(static_cast<uint8_t>(c)), &spelling);
      add_unknown(spelling, &pending, ids);
    }
  }
  if (pending >= 0) ids->push_back(pending);
}

void BpeModel::split_into_characters(std::string_view piece, std::vector<int32_t> *ids) const {
  int32_t pending = -1;
  for (size_t i = 0; i < piece.size();) {
    const std::string_view character = piece.substr(i, utf8_length(piece[i]));
    i += character.size();
    const int32_t id = spellings_.find(character);
    if (id >= 0) {
      if (pending >= 0) ids->push_back(pending);
      pending = -1;
      ids->push_back(id);
    } else {
      add_unknown(character, &pending, ids);
    }
  }
  if (pending >= 0) ids->push_back(pending);
}

// A symbol that is not in the vocabulary: its bytes if all of them have a fallback token, else the
// unknown token, which stays pending so that a run of unknowns can become one; without an unknown
// token nothing.
void BpeModel::add_unknown(std::string_view spelling, int32_t *pending,
                           std::vector<int32_t> *ids) const {
  if (has_byte_fallback_ && std::all_of(spelling.begin(), spelling.end(), [&](char c) {
        return fallback_ids_[static_cast<uint8_t>(c)] >= 0;
      })) {
    for (const char c : spelling) ids->push_back(fallback_ids_[static_cast<uint8_t>(c)]);
    return;
  }
  if (unknown_id_ < 0) return;
  if (*pending >= 0 && !fuses_unknown_) ids->push_back(*pending);
  *pending = unknown_id_;
}

void BpeModel::merge_short(BpeScratch *scratch) const {
  std::array<int32_t, kLongPiece> symbols;
  std::array<Merge, kLongPiece> merges;
  size_t n = scratch->ids.size();
  std::copy(scratch->ids.begin(), scratch->ids.end(), symbols.begin());
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = merges_.find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].id;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --n;
    if (best > 0) merges[best - 1] = merges_.find(symbols[best - 1], symbols[best]);
    if (best + 1 < n) merges[best] = merges_.find(symbols[best], symbols[best + 1]);
  }
  scratch->ids.assign(symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(n));
}

// A candidate is current if the pair at its position still has its rank: symbols only ever grow, so
// a pair that has changed never comes back.
void BpeModel::merge_long(BpeScratch *scratch) const {
  std::vector<int32_t> &ids = scratch->ids;
  const auto n = static_cast<uint32_t>(ids.size());
  scratch->ranks.resize(n);
  scratch->previous.resize(n);
  scratch->next.resize(n);
  scratch->candidates.clear();
  for (uint32_t i = 0; i < n; ++i) {
    scratch->previous[i] = i - 1;  // wraps to kEnd at the start
    scratch->next[i] = i + 1 < n ? i + 1 : kEnd;
    const uint32_t rank = i + 1 < n ? merges_.find(ids[i], ids[i + 1]).rank : kNoRank;
    scratch->ranks[i] = rank;
    if (rank != kNoRank) scratch->candidates.push_back(static_cast<uint64_t>(rank) << 32 | i);
  }
  std::make_heap(scratch->candidates.begin(), scratch->candidates.end(), std::greater<>());

  const auto update_rank = [&](uint32_t position) {
    const uint32_t right = scratch->next[position];
    const uint32_t rank = right == kEnd ? kNoRank : merges_.find(ids[position], ids[right]).rank;
    scratch->ranks[position] = rank;
    push_candidate(rank, position, &scratch->candidates);
  };
  while (!scratch->candidates.empty()) {
    std::pop_heap(scratch->candidates.begin(), scratch->candidates.end(), std::greater<>());
    const uint64_t candidate = scratch->candidates.back();
    scratch->candidates.pop_back();
    const auto position = static_cast<uint32_t>(candidate & UINT32_MAX);
    if (scratch->ranks[position] != candidate >> 32) continue;
    const uint32_t right = scratch->next[position];
    ids[position] = merges_.find(ids[position], ids[right]).id;
    ids[right] = -1;
    scratch->ranks[right] = kNoRank;
    scratch->next[position] = scratch->next[right];
    if (scratch->next[position] != kEnd) scratch->previous[scratch->next[position]] = position;
    update_rank(position);
    if (scratch->previous[position] != kEnd) update_rank(scratch->previous[position]);
  }
  std::erase(ids, -1);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// BpeModel: one pre-token to ids by merging pairs in rank order. In a byte-level model the symbols
// are the raw bytes of the text (the byte alphabet of the file is undone when it is read);
// otherwise they are characters.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/snapshot/json.h"
#include "lib/tokenizer/merge_table.h"
#include "lib/tokenizer/token_map.h"

namespace colibri {

constexpr int32_t kMaxTokenId = (1 << 22) - 1;

// Working memory of one encode call, reused from piece to piece.
struct BpeScratch {
  std::vector<int32_t> ids;        // symbols; -1 once merged into a symbol further left
  std::vector<uint32_t> ranks;     // of the pair that begins at a symbol
  std::vector<uint32_t> previous;  // neighbours, only in long pieces
  std::vector<uint32_t> next;
  std::vector<uint64_t> candidates;  // heap of rank << 32 | position
};

class BpeModel {
 public:
  // Reads the "model" section. Throws Error: kUnsupported (type or option), kFormat (what, where).
  // `name` is the file, for messages.
  static BpeModel read(const JsonValue &section, bool is_byte_level, const std::string &name);

  // Appends the ids of a piece (valid UTF-8). O(n log n).
  void encode_piece(std::string_view piece, BpeScratch *scratch, std::vector<int32_t> *ids) const;

  // Id of a vocabulary entry as it is spelled in the file; -1 if absent.
  int32_t find(std::string_view spelling) const noexcept { return spellings_.find(spelling); }
  size_t size() const noexcept { return spellings_.size(); }

 private:
  void read_vocabulary(const JsonValue &vocabulary, const std::string &name);
  void read_unknown(const JsonValue &unknown, const std::string &name);
  void read_merges(const JsonValue &merges, const std::string &name);
  void fill_byte_tables();
  int32_t find_spelling_of_byte(uint8_t byte) const noexcept;
  void add_unknown(std::string_view spelling, int32_t *pending, std::vector<int32_t> *ids) const;
  void split_into_bytes(std::string_view piece, std::vector<int32_t> *ids) const;
  void split_into_characters(std::string_view piece, std::vector<int32_t> *ids) const;
  void merge_short(BpeScratch *scratch) const;
  void merge_long(BpeScratch *scratch) const;

  bool is_byte_level_ = false;
  bool ignores_merges_ = false;
  bool fuses_unknown_ = false;
  bool has_byte_fallback_ = false;
  int32_t unknown_id_ = -1;
  TokenMap spellings_;  // as in the file
  TokenMap pieces_;     // byte-level with ignores_merges_: raw bytes to id
  MergeTable merges_;
  std::array<int32_t, 256> byte_symbols_{};  // byte-level: id of a single byte, -1 if absent
  std::array<int32_t, 256> fallback_ids_{};  // of "<0x00>".."<0xFF>", -1 if absent or not in use
};

}  // namespace colibri

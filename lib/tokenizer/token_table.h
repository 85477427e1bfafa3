// SPDX-License-Identifier: Apache-2.0
//
// TokenTable: what each id writes into a decoded text, with the "decoder" section of the
// tokenizer.json already applied token by token. What cannot be done token by token (characters
// split over tokens, the stripped start of a text) is left to StreamDecoder.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/snapshot/json.h"

namespace colibri {

// The "decoder" section.
struct DecoderRules {
  struct Replacement {
    std::string from;
    std::string to;
  };
  bool is_byte_level = false;
  bool has_byte_fallback = false;
  std::vector<Replacement> replacements;
  std::string stripped;     // one character; taken off the start of a text
  uint32_t n_stripped = 0;  // at most so many times

  // Throws Error: kUnsupported (a kind or an order of kinds, by name), kFormat.
  static DecoderRules read(const JsonValue &section, const std::string &name);
};

// A token as the file spells it.
struct TokenSpelling {
  std::string_view text;
  bool is_present = false;
  bool is_added = false;  // from added_tokens: byte-level spelling does not apply
  bool is_special = false;
};

class TokenTable {
 public:
  TokenTable() noexcept = default;
  // `spellings` by id.
  TokenTable(const std::vector<TokenSpelling> &spellings, const DecoderRules &rules);

  size_t size() const noexcept { return flags_.size(); }
  bool contains(int32_t id) const noexcept {
    return id >= 0 && static_cast<size_t>(id) < flags_.size();
  }
  // The id must be contained.
  std::string_view bytes(int32_t id) const noexcept {
    const auto i = static_cast<size_t>(id);
    return std::string_view(bytes_).substr(offsets_[i], offsets_[i + 1] - offsets_[i]);
  }
  bool is_special(int32_t id) const noexcept {
    return (flags_[static_cast<size_t>(id)] & kSpecial) != 0;
  }
  // True for a token that stands for one byte of a character ("<0xE2>").
  bool is_byte(int32_t id) const noexcept { return (flags_[static_cast<size_t>(id)] & kByte) != 0; }

 private:
  enum Flag : uint8_t { kSpecial = 1, kByte = 2 };
  std::string bytes_;
  std::vector<size_t> offsets_;  // size() + 1
  std::vector<uint8_t> flags_;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 stepping by the table of well-formed byte sequences of the Unicode standard (chapter 3):
// the first byte gives the length and the range of the second byte, all later bytes are 80..BF.

#include "lib/base/utf8.h"

#include <cstring>

namespace colibri {
namespace {

struct LeadByte {
  uint8_t length;  // 0: no character begins with this byte
  uint8_t second_low;
  uint8_t second_high;
};

constexpr LeadByte classify_lead(uint8_t byte) noexcept {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0) {
    return {3, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte < 0xF5) {
    return {4, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0, 0, 0};
}

}  // namespace

Utf8Step step_utf8(std::string_view text) noexcept {
  const LeadByte lead = classify_lead(static_cast<uint8_t>(text[0]));
  if (lead.length == 0) return {Utf8Step::Kind::kInvalid, 1};
  for (uint8_t i = 1; i < lead.length; ++i) {
    if (i >= text.size()) return {Utf8Step::Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Step::Kind::kInvalid, i};
  }
  return {Utf8Step::Kind::kCharacter, lead.length};
}

size_t count_valid_utf8(std::string_view text) noexcept {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t block;
    if (i + sizeof(block) <= text.size()) {
      std::memcpy(&block, text.data() + i, sizeof(block));
      if ((block & 0x8080808080808080u) == 0) {
        i += sizeof(block);
        continue;
      }
    }
    const Utf8Step step = step_utf8(text.substr(i));
    if (step.kind != Utf8Step::Kind::kCharacter) break;
    i += step.length;
  }
  return i;
}

char32_t decode_utf8(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  switch (utf8_length(text[0])) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
  }
}

void append_utf8(char32_t code_point, std::string *text) {
  const auto tail = [&](int shift) {
    text->push_back(static_cast<char>(0x80 | (code_point >> shift & 0x3F)));
  };
  if (code_point < 0x80) {
    text->push_back(static_cast<char>(code_point));
  } else if (code_point < 0x800) {
    text->push_back(static_cast<char>(0xC0 | code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    text->push_back(static_cast<char>(0xE0 | code_point >> 12));
    tail(6);
    tail(0);
  } else {
    text->push_back(static_cast<char>(0xF0 | code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size() + 16);
  while (!text.empty()) {
    const size_t n_valid = count_valid_utf8(text);
    repaired.append(text.substr(0, n_valid));
    text.remove_prefix(n_valid);
    if (text.empty()) break;
    repaired.append(kReplacementText);
    text.remove_prefix(step_utf8(text).length);
  }
  return repaired;
}

}  // namespace colibri

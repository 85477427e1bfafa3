// SPDX-License-Identifier: Apache-2.0
//
// Texts and shapes from files, made fit for one-line messages of bounded length.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace colibri {

// `text` with control characters replaced by '?', cut to `limit` bytes, never inside a UTF-8
// character.
inline std::string printable(std::string_view text, size_t limit = 100) {
  if (text.size() > limit) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
  }
  std::string shown(text.substr(0, limit));
  for (char &letter : shown) {
    const unsigned char byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) letter = '?';
  }
  return shown;
}

// "[768, 2048]".
inline std::string shape_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

}  // namespace colibri

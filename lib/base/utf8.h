// SPDX-License-Identifier: Apache-2.0
//
// UTF-8 by hand: stepping, checking, repairing. A bad part is maximal as Unicode describes it: the
// longest start of a well-formed sequence, or one byte; each becomes one U+FFFD, as in Python and
// Rust.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";  // U+FFFD

// The first character or bad part of a text.
struct Utf8Step {
  enum class Kind : uint8_t {
    kCharacter,
    kInvalid,
    kIncomplete
  };  // incomplete: the text ends in it
  Kind kind;
  uint8_t length;  // bytes, 1..4
};

// `text` is not empty.
Utf8Step step_utf8(std::string_view text) noexcept;

// Length in bytes of the longest valid start of `text`.
size_t count_valid_utf8(std::string_view text) noexcept;

// Code point of the character at the start of a text that begins with a valid character.
char32_t decode_utf8(std::string_view text) noexcept;

// Length of a character of valid UTF-8 by its first byte.
constexpr size_t utf8_length(char first) noexcept {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_utf8(char32_t code_point, std::string *text);

// A copy in which each maximal bad part is one U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace colibri

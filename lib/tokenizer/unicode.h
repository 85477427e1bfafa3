// SPDX-License-Identifier: Apache-2.0
//
// What needs Unicode tables outside the split patterns: canonical composition and the character
// classes of added tokens. unicode.cpp is the only includer of utf8proc.

#pragma once

#include <string>
#include <string_view>

namespace colibri {

// True if the character is a starter, is unchanged by NFC, and never joins a character before it. A
// text of such characters is in NFC. False does not mean the opposite: the test is a short list of
// ranges.
bool is_settled_in_nfc(char32_t code_point) noexcept;

// Normalisation form C of valid UTF-8, appended. O(n log n). `text` may be of any length.
void append_nfc(std::string_view text, std::string *normalized);

// Letter, mark, decimal digit, letter number, connector, joiner: what a single-word token may not
// touch.
bool is_word_character(char32_t code_point) noexcept;
// The property White_Space.
bool is_white_space(char32_t code_point) noexcept;

}  // namespace colibri

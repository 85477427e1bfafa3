// SPDX-License-Identifier: Apache-2.0
//
// The alphabet in which byte-level vocabularies are written: each byte is one printable character,
// the bytes 33..126, 161..172 and 174..255 themselves, the other 68 in order from U+0100 on (a
// space is U+0120).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

char32_t byte_to_letter(uint8_t byte) noexcept;
// The byte a character stands for, or -1 if it is not in the alphabet.
int letter_to_byte(char32_t letter) noexcept;

// Appends the bytes that `text` (valid UTF-8) spells. False, and nothing appended, if a character
// of it is not in the alphabet.
bool append_spelled_bytes(std::string_view text, std::string *bytes);

}  // namespace colibri

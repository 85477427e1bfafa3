// SPDX-License-Identifier: Apache-2.0
//
// Formats, then walks over the result once and repairs it in place. Names from files reach error
// texts, and hosts hand those texts to languages that insist on UTF-8.

#include "lib/base/format_text.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace colibri {
namespace {

// Bytes of the character that begins with `lead`; 0 if none can begin so.
size_t sequence_length(uint8_t lead) noexcept {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Whether byte `index` (1..3) may follow `lead`. The second byte excludes overlong forms,
// surrogates and numbers above U+10FFFF.
bool is_continuation(uint8_t lead, size_t index, uint8_t byte) noexcept {
  if (byte < 0x80 || byte > 0xBF) return false;
  if (index != 1) return true;
  if (lead == 0xE0) return byte >= 0xA0;
  if (lead == 0xED) return byte <= 0x9F;
  if (lead == 0xF0) return byte >= 0x90;
  if (lead == 0xF4) return byte <= 0x8F;
  return true;
}

// Replaces what is not printable UTF-8. Returns the new length, which is smaller only if the text
// was cut inside its last character.
size_t repair(char *text, size_t length, bool is_cut) noexcept {
  size_t at = 0;
  while (at < length) {
    const uint8_t lead = static_cast<uint8_t>(text[at]);
    const size_t wanted = sequence_length(lead);
    size_t found = wanted == 0 ? 0 : 1;
    while (found != 0 && found < wanted && at + found < length &&
           is_continuation(lead, found, static_cast<uint8_t>(text[at + found]))) {
      ++found;
    }
    if (wanted > 1 && found < wanted && at + found == length && is_cut) return at;
    if (found == wanted && wanted != 0 && lead >= 0x20 && lead != 0x7F) {
      at += wanted;
    } else {
      text[at++] = '?';
    }
  }
  return length;
}

}  // namespace

size_t format_text(char *text, size_t capacity, const char *format,
                   __builtin_va_list args) noexcept {
  const int wanted = std::vsnprintf(text, capacity, format, args);
  if (wanted < 0) {
    std::snprintf(text, capacity, "(a text that could not be formatted)");
    return std::strlen(text);
  }
  const bool is_cut = static_cast<size_t>(wanted) >= capacity;
  const size_t length = is_cut ? capacity - 1 : static_cast<size_t>(wanted);
  const size_t repaired = repair(text, length, is_cut);
  text[repaired] = '\0';
  return repaired;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Formats, then walks over the result once and repairs it in place. Names from files reach error
// texts, and hosts hand those texts to languages that insist on UTF-8.

#include "lib/base/format_text.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "lib/base/utf8.h"

namespace colibri {
namespace {

// Replaces what is not printable UTF-8. Returns the new length, which is smaller only if the text
// was cut inside its last character.
size_t repair(char *text, size_t length, bool is_cut) noexcept {
  size_t at = 0;
  while (at < length) {
    const Utf8Step step = step_utf8({text + at, length - at});
    if (step.kind == Utf8Step::Kind::kIncomplete && is_cut) return at;
    const auto lead = static_cast<uint8_t>(text[at]);
    if (step.kind == Utf8Step::Kind::kCharacter && lead >= 0x20 && lead != 0x7F) {
      at += step.length;
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

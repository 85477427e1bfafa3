// SPDX-License-Identifier: Apache-2.0
//
// One line of text for a person, in a buffer of fixed size: what status texts and log lines are
// made of. The result is always valid UTF-8 without control characters, whatever a file put into
// it.

#pragma once

#include <cstddef>

namespace colibri {

// Formats like vsnprintf into text[0..capacity), capacity >= 1, NUL included; returns the length. A
// text that is too long is cut, never inside a UTF-8 character. Control characters and bytes that
// are not UTF-8 become '?'. Allocates nothing.
size_t format_text(char *text, size_t capacity, const char *format,
                   __builtin_va_list args) noexcept;

}  // namespace colibri

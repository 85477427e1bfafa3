// SPDX-License-Identifier: Apache-2.0

#include "lib/base/hex_text.h"

namespace colibri {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

}  // namespace

std::string hex_text(uint64_t number) {
  std::string text(kHexTextDigits, '0');
  for (size_t i = text.size(); i-- > 0; number >>= 4) text[i] = kDigits[number & 15];
  return text;
}

std::optional<uint64_t> parse_hex_text(std::string_view text) noexcept {
  if (text.size() != kHexTextDigits) return std::nullopt;
  uint64_t number = 0;
  for (const char letter : text) {
    const size_t digit = kDigits.find(letter);
    if (digit == std::string_view::npos) return std::nullopt;
    number = number << 4 | digit;
  }
  return number;
}

}  // namespace colibri

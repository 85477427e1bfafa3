// SPDX-License-Identifier: Apache-2.0
//
// Both directions of the byte alphabet as tables that the compiler computes.

#include "lib/tokenizer/byte_alphabet.h"

#include <array>

#include "lib/base/utf8.h"

namespace colibri {
namespace {

constexpr int kLetterEnd = 0x100 + 68;

constexpr bool is_its_own_letter(int byte) noexcept {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

struct Alphabet {
  std::array<char32_t, 256> letters{};
  std::array<int16_t, kLetterEnd> bytes{};
};

constexpr Alphabet make_alphabet() noexcept {
  Alphabet alphabet;
  for (int16_t &byte : alphabet.bytes) byte = -1;
  int next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const int letter = is_its_own_letter(byte) ? byte : next++;
    alphabet.letters[static_cast<size_t>(byte)] = static_cast<char32_t>(letter);
    alphabet.bytes[static_cast<size_t>(letter)] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_to_letter(uint8_t byte) noexcept {
  return kAlphabet.letters[byte];
}

int letter_to_byte(char32_t letter) noexcept {
  return letter < kAlphabet.bytes.size() ? kAlphabet.bytes[letter] : -1;
}

bool append_spelled_bytes(std::string_view text, std::string *bytes) {
  const size_t old_size = bytes->size();
  for (size_t i = 0; i < text.size(); i += utf8_length(text[i])) {
    const int byte = letter_to_byte(decode_utf8(text.substr(i)));
    if (byte < 0) {
      bytes->resize(old_size);
      return false;
    }
    bytes->push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace colibri

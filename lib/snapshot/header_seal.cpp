// SPDX-License-Identifier: Apache-2.0
//
// The key is looked for as text, since the place of its digits is what counts. What stands in front
// of it in a header is fixed by the writer, so nothing else is taken for it.

#include "lib/snapshot/header_seal.h"

#include <span>

#include "lib/base/checksum.h"
#include "lib/base/hex_text.h"

namespace colibri {
namespace {

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

// Where the digits begin; npos if there is no room for them.
size_t find_digits(std::string_view header) {
  const std::string opening = std::string("\"") + kHeaderSealKey + "\":\"";
  const size_t begin = header.find(opening);
  if (begin == std::string_view::npos) return begin;
  const size_t digits = begin + opening.size();
  return digits + kHexTextDigits <= header.size() ? digits : std::string_view::npos;
}

uint64_t checksum_around(std::string_view header, size_t digits) {
  StreamingChecksum sum;
  sum.add(bytes_of(header.substr(0, digits)));
  sum.add(bytes_of(kOpenSeal));
  sum.add(bytes_of(header.substr(digits + kHexTextDigits)));
  return sum.value();
}

}  // namespace

bool seal_header(std::string *header) {
  const size_t digits = find_digits(*header);
  if (digits == std::string::npos || header->compare(digits, kHexTextDigits, kOpenSeal) != 0) {
    return false;
  }
  header->replace(digits, kHexTextDigits, hex_text(checksum_around(*header, digits)));
  return true;
}

HeaderSeal check_header_seal(std::string_view header) {
  const size_t digits = find_digits(header);
  if (digits == std::string_view::npos) return HeaderSeal::kNone;
  const bool is_intact =
      parse_hex_text(header.substr(digits, kHexTextDigits)) == checksum_around(header, digits);
  return is_intact ? HeaderSeal::kIntact : HeaderSeal::kBroken;
}

}  // namespace colibri

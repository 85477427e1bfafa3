// SPDX-License-Identifier: Apache-2.0
//
// 64-bit hashes and checksums as text: 16 hexadecimal digits, lower case.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace colibri {

constexpr size_t kHexTextDigits = 16;

std::string hex_text(uint64_t number);
// The number of exactly such a text; nullopt for any other.
std::optional<uint64_t> parse_hex_text(std::string_view text) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The checksum that the header of a packed shard carries of itself: of all its bytes from '{' to
// the data, with 16 zeros in the place of the checksum's own digits. It finds damage to names,
// types, shapes, places and the manifest, which the checksums of tensors do not cover.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace colibri {

// A member of __metadata__, in front of everything that names a tensor; its value is a hex text.
constexpr const char *kHeaderSealKey = "colibri.header";
// What a writer puts there first.
constexpr const char *kOpenSeal = "0000000000000000";

// Puts the checksum into a header that has the key with kOpenSeal, written without spaces. False
// if it has not.
bool seal_header(std::string *header);

enum class HeaderSeal : uint8_t { kNone, kIntact, kBroken };
// Total: any bytes. kNone if the key is not there.
HeaderSeal check_header_seal(std::string_view header);

}  // namespace colibri

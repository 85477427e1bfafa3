// SPDX-License-Identifier: Apache-2.0
//
// The hash of identities: stable, and sensitive to every byte, length and seed.

#include "lib/snapshot/hash.h"

#include <set>
#include <string>

#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("hashes stay the same from version to version") {
  // Identities are stored in side files; a change of these numbers discards them all.
  CHECK(hash_bytes("", 0) == hash_bytes(std::string_view(), 0));
  CHECK(hash_bytes("model.safetensors", 0) == 0x80d3c051ce6a0f3cu);
  CHECK(hash_bytes("12345678", 7) == 0x1366035424438490u);
}

TEST_CASE("every byte, the length and the seed change the hash") {
  std::set<uint64_t> seen;
  const std::string text = "a text of more than two words";
  for (size_t size = 0; size <= text.size(); ++size)
    seen.insert(hash_bytes({text.data(), size}, 0));
  CHECK(seen.size() == text.size() + 1);
  for (size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] = static_cast<char>(other[i] ^ 1);
    seen.insert(hash_bytes(other, 0));
  }
  CHECK(seen.size() == 2 * text.size() + 1);
  CHECK(hash_bytes(text, 1) != hash_bytes(text, 0));
  CHECK(hash_bytes(std::string_view("\0", 1), 0) != hash_bytes(std::string_view("\0\0", 2), 0));
}

}  // namespace colibri::test

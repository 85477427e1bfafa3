// SPDX-License-Identifier: Apache-2.0
//
// The checksum against published values of XXH3, so that a reader elsewhere computes the same.

#include "lib/base/checksum.h"

#include <string_view>
#include <vector>

#include "tests/support/catch.h"

using colibri::checksum;
using colibri::StreamingChecksum;

namespace {

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::vector<uint8_t> make_bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 31 + i / 251);
  return bytes;
}

}  // namespace

TEST_CASE("the checksum is XXH3 of 64 bits with seed 0") {
  CHECK(checksum({}) == 0x2d06800538d394c2);
  CHECK(checksum(bytes_of("a")) == 0xe6c632b61e964e1f);
  CHECK(checksum(bytes_of("abc")) == 0x78af5f94892f3950);
}

TEST_CASE("pieces of any size give the checksum of the whole") {
  for (const size_t n : {size_t{0}, size_t{1}, size_t{240}, size_t{241}, size_t{100003}}) {
    const std::vector<uint8_t> bytes = make_bytes(n);
    for (const size_t piece : {size_t{1}, size_t{63}, size_t{256}, size_t{4096}, size_t{200000}}) {
      StreamingChecksum streaming;
      for (size_t at = 0; at < n; at += piece) {
        streaming.add(std::span(bytes).subspan(at, std::min(piece, n - at)));
      }
      streaming.add({});
      CHECK(streaming.value() == checksum(bytes));
    }
  }
}

TEST_CASE("the value may be asked for in between, and a reset begins anew") {
  const std::vector<uint8_t> bytes = make_bytes(1000);
  StreamingChecksum streaming;
  streaming.add(std::span(bytes).first(400));
  CHECK(streaming.value() == checksum(std::span(bytes).first(400)));
  streaming.add(std::span(bytes).subspan(400));
  CHECK(streaming.value() == checksum(bytes));
  streaming.reset();
  CHECK(streaming.value() == checksum({}));
}

TEST_CASE("a flipped bit changes the checksum") {
  std::vector<uint8_t> bytes = make_bytes(5000);
  const uint64_t before = checksum(bytes);
  for (const size_t at : {size_t{0}, size_t{2500}, size_t{4999}}) {
    bytes[at] ^= 1;
    CHECK(checksum(bytes) != before);
    bytes[at] ^= 1;
  }
}

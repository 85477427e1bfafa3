// SPDX-License-Identifier: Apache-2.0
//
// Buffer: zeroes, alignment, ownership, residency of untouched pages, and refusal of absurd sizes.

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/buffer.h"
#include "tests/support/catch.h"

using colibri::Buffer;

namespace {

size_t count_resident_pages(const Buffer &buffer) {
  std::vector<unsigned char> pages((buffer.size() + 4095) / 4096);
  REQUIRE(mincore(const_cast<uint8_t *>(buffer.data()), buffer.size(), pages.data()) == 0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(),
                                           [](unsigned char page) { return (page & 1) != 0; }));
}

}  // namespace

TEST_CASE("a buffer is page aligned, zero filled and writable to its last byte") {
  for (const size_t bytes :
       {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{1000003}}) {
    Buffer buffer(bytes, "test");
    REQUIRE(buffer.size() == bytes);
    REQUIRE(reinterpret_cast<uintptr_t>(buffer.data()) % Buffer::kAlignment == 0);
    REQUIRE(std::all_of(buffer.data(), buffer.data() + bytes, [](uint8_t b) { return b == 0; }));
    std::memset(buffer.data(), 0xA5, bytes);
    REQUIRE(std::as_const(buffer).as<uint8_t>()[bytes - 1] == 0xA5);
  }
}

TEST_CASE("an empty buffer has no memory") {
  const Buffer none;
  const Buffer zero(0, "test");
  REQUIRE(none.data() == nullptr);
  REQUIRE(zero.data() == nullptr);
  REQUIRE(zero.size() == 0);
}

TEST_CASE("moving a buffer leaves the source empty and keeps the bytes") {
  Buffer first(5000, "test");
  first.data()[4999] = 7;
  uint8_t *address = first.data();
  Buffer second(std::move(first));
  REQUIRE(second.data() == address);
  REQUIRE(first.data() == nullptr);  // NOLINT: a moved-from Buffer is defined to be empty
  REQUIRE(first.size() == 0);
  Buffer third(10, "test");
  third = std::move(second);
  REQUIRE(third.data() == address);
  REQUIRE(third.size() == 5000);
  REQUIRE(third.data()[4999] == 7);
  REQUIRE(second.data() == nullptr);  // NOLINT: as above
  Buffer &same = third;
  third = std::move(same);
  REQUIRE(third.data() == address);
  REQUIRE(third.data()[4999] == 7);
}

TEST_CASE("untouched pages of a buffer are not resident") {
  constexpr size_t kBytes = size_t{64} << 20;
  constexpr size_t kHugePagePages = 512;  // what a kernel with huge pages on may add
  Buffer buffer(kBytes, "test");
  REQUIRE(count_resident_pages(buffer) == 0);
  buffer.data()[kBytes / 2] = 1;
  REQUIRE(count_resident_pages(buffer) >= 1);
  REQUIRE(count_resident_pages(buffer) <= kHugePagePages);
}

TEST_CASE("a buffer that asked for huge pages holds what is written and nothing beside it") {
  constexpr size_t kBytes = 5 * Buffer::kHugePageBytes + 3 * Buffer::kAlignment;
  Buffer buffer(kBytes, "test");
  buffer.ask_for_huge_pages();
  REQUIRE(count_resident_pages(buffer) == 0);
  for (size_t i = 0; i < kBytes; i += Buffer::kAlignment) {
    buffer.data()[i] = static_cast<uint8_t>(i >> 12);
  }
  REQUIRE(count_resident_pages(buffer) == kBytes / Buffer::kAlignment);
  for (size_t i = 0; i < kBytes; i += Buffer::kAlignment) {
    REQUIRE(buffer.data()[i] == static_cast<uint8_t>(i >> 12));
  }
  for (const size_t bytes : {size_t{0}, size_t{1}, Buffer::kHugePageBytes}) {
    Buffer small(bytes, "test");
    small.ask_for_huge_pages();  // too small for one: nothing happens
    REQUIRE(small.size() == bytes);
  }
}

TEST_CASE("a size that cannot be had is a memory error that names size and purpose") {
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX - 4096, uint64_t{1} << 62}) {
    try {
      const Buffer buffer(bytes, "KV pool");
      FAIL("allocation succeeded");
    } catch (const colibri::Error &error) {
      REQUIRE(error.status().code() == colibri::StatusCode::kMemory);
      REQUIRE(std::string(error.what()).find("KV pool") != std::string::npos);
      REQUIRE(std::string(error.what()).find(std::to_string(bytes)) != std::string::npos);
    }
  }
}

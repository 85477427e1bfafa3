// SPDX-License-Identifier: Apache-2.0
//
// Tests of lib/capi/sized_struct.h: callers of earlier and later versions than the library.

#include "lib/capi/sized_struct.h"

#include <cstring>
#include <vector>

#include "lib/base/status.h"
#include "tests/support/catch.h"

using namespace colibri;
using Catch::Matchers::Contains;

namespace {

// A struct as a later version of the library knows it: its first version ended with `old_field`.
struct Grown {
  uint32_t struct_size;
  uint32_t old_field;
  uint64_t new_field;
};
constexpr StructSizes kGrown = {8, sizeof(Grown)};

Grown read(const void *source) {
  Grown value{};
  read_sized(source, kGrown, "options", &value);
  return value;
}

std::string refusal(const void *source) {
  try {
    read(source);
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kArgument);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a struct of the first version is read and the rest is default") {
  const uint32_t first[2] = {8, 5};
  const Grown value = read(first);
  CHECK(value.old_field == 5);
  CHECK(value.new_field == 0);
}

TEST_CASE("a struct of the library's own version is read whole") {
  const Grown given = {sizeof(Grown), 5, 6};
  CHECK(read(&given).new_field == 6);
}

TEST_CASE("a larger struct is read if its unknown rest is zero and refused if not") {
  std::vector<uint64_t> later(5, 0);
  const Grown known = {40, 5, 6};
  std::memcpy(later.data(), &known, sizeof(known));
  CHECK(read(later.data()).new_field == 6);
  later[4] = 1;
  CHECK_THAT(refusal(later.data()), Contains("options") && Contains("byte 16"));
}

TEST_CASE("a size of no version is refused with the smallest one") {
  for (const uint32_t size : {0u, 4u, 7u, 4097u, UINT32_MAX}) {
    const uint32_t given[2] = {size, 5};
    CHECK_THAT(refusal(given), Contains("struct_size is " + std::to_string(size)) && Contains("8"));
  }
}

TEST_CASE("results never go past the caller's struct and clear what is unknown") {
  const Grown value = {0, 5, 6};
  std::vector<uint8_t> bytes(64, 0xaa);
  write_sized(&value, sizeof(value), 8, bytes.data());
  CHECK(bytes[4] == 5);
  CHECK(bytes[8] == 0xaa);
  bytes.assign(64, 0xaa);
  write_sized(&value, sizeof(value), 40, bytes.data());
  CHECK(bytes[8] == 6);
  CHECK(bytes[39] == 0);
  CHECK(bytes[40] == 0xaa);
}

TEST_CASE("defaults fill exactly the caller's struct") {
  std::vector<uint8_t> bytes(64, 0xaa);
  fill_defaults(bytes.data(), 40);
  uint32_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof(size));
  CHECK(size == 40);
  CHECK(bytes[39] == 0);
  CHECK(bytes[40] == 0xaa);
  bytes.assign(64, 0xaa);
  fill_defaults(bytes.data(), 3);  // no room for the size itself
  CHECK(bytes[0] == 0xaa);
  fill_defaults(nullptr, 40);
}

TEST_CASE("no first version is larger than the struct is now") {
  CHECK(kFirstVersionBytes<colibri_model_options> <= sizeof(colibri_model_options));
  CHECK(kFirstVersionBytes<colibri_event> <= sizeof(colibri_event));
  CHECK(sizes_of<colibri_plan>().known_bytes == sizeof(colibri_plan));
}

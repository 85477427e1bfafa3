// SPDX-License-Identifier: Apache-2.0
//
// Checked arithmetic at and beyond the edge of 64 bits.

#include <string>

#include "lib/base/checked_math.h"
#include "tests/support/catch.h"

using namespace colibri;

namespace {

template <typename Function>
std::string format_error_of(Function function) {
  try {
    function();
  } catch (const Error &error) {
    REQUIRE(error.status().code() == StatusCode::kFormat);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("sums and products that fit are exact") {
  REQUIRE(checked_add(0, 0, "x") == 0);
  REQUIRE(checked_add(UINT64_MAX - 1, 1, "x") == UINT64_MAX);
  REQUIRE(checked_multiply(UINT64_MAX, 1, "x") == UINT64_MAX);
  REQUIRE(checked_multiply(UINT64_MAX, 0, "x") == 0);
  REQUIRE(checked_multiply(0xFFFFFFFF, 0x100000001, "x") == UINT64_MAX);
}

TEST_CASE("sums and products that do not fit are format errors with both numbers") {
  const std::string sum = format_error_of([] { checked_add(UINT64_MAX, 1, "tensor 'a' end"); });
  REQUIRE(sum == "tensor 'a' end overflows 64 bits: 18446744073709551615 + 1");
  const std::string product =
      format_error_of([] { checked_multiply(uint64_t{1} << 32, uint64_t{1} << 32, "bytes"); });
  REQUIRE(product == "bytes overflows 64 bits: 4294967296 * 4294967296");
}

TEST_CASE("aligning up gives the least multiple or a format error") {
  REQUIRE(checked_align_up(0, 64, "x") == 0);
  REQUIRE(checked_align_up(1, 64, "x") == 64);
  REQUIRE(checked_align_up(64, 64, "x") == 64);
  REQUIRE(checked_align_up(65, 64, "x") == 128);
  REQUIRE(checked_align_up(7, 1, "x") == 7);
  REQUIRE(checked_align_up(3, 1u << 30, "x") == 1u << 30);
  REQUIRE(checked_align_up(UINT64_MAX - 4095, 4096, "x") == UINT64_MAX - 4095);
  REQUIRE_FALSE(format_error_of([] { checked_align_up(UINT64_MAX - 4094, 4096, "x"); }).empty());
  REQUIRE_FALSE(format_error_of([] { checked_align_up(UINT64_MAX, 2, "x"); }).empty());
}

TEST_CASE("dividing rounds up and never overflows") {
  REQUIRE(divide_up(0, 3) == 0);
  REQUIRE(divide_up(1, 3) == 1);
  REQUIRE(divide_up(3, 3) == 1);
  REQUIRE(divide_up(4, 3) == 2);
  REQUIRE(divide_up(UINT64_MAX, 2) == uint64_t{1} << 63);
  REQUIRE(divide_up(UINT64_MAX, UINT64_MAX) == 1);
}

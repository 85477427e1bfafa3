// SPDX-License-Identifier: Apache-2.0
//
// All 16-bit and 8-bit patterns against formulas that share nothing with the implementation: ldexp
// in double for the values, and nearest neighbours found among all stored values for the rounding.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "lib/base/number_formats.h"
#include "tests/support/catch.h"

using namespace colibri;

namespace {

// The value of a pattern with the given field widths, as IEEE 754 defines it; special exponents
// apart.
double value_of(uint32_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1));
  const bool is_negative = (bits >> (fraction_bits + exponent_bits) & 1) != 0;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
  return is_negative ? -magnitude : magnitude;
}

bool is_same(float value, double wanted) {
  return value == static_cast<float>(wanted) && static_cast<double>(value) == wanted &&
         std::signbit(value) == std::signbit(wanted);
}

// Bits of the 16-bit value nearest to `value` >= 0, ties to even, found by search over all finite
// patterns. `infinity_bits` follows the largest of them and stands for the next power of two, as
// rounding has it.
uint16_t nearest_by_search(double value, int exponent_bits, int fraction_bits,
                           uint16_t infinity_bits) {
  uint32_t low = 0;
  uint32_t high = infinity_bits;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (value_of(middle, exponent_bits, fraction_bits) <= value ? low : high) = middle;
  }
  const double below = value - value_of(low, exponent_bits, fraction_bits);
  const double above = value_of(high, exponent_bits, fraction_bits) - value;
  const bool is_high = above < below || (above == below && (low & 1) != 0);
  return static_cast<uint16_t>(is_high ? high : low);
}

template <typename Check>
void for_awkward_floats(const Check &check) {
  std::mt19937 generator(7);
  for (int i = 0; i < 200000; ++i) check(std::bit_cast<float>(static_cast<uint32_t>(generator())));
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0000u, 0x0001u, 0x0FFFu, 0x1000u, 0x1001u, 0x2000u, 0x3000u,
                               0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      check(std::bit_cast<float>(high << 16 | low));
    }
  }
}

}  // namespace

TEST_CASE("every F16 pattern converts to its exact value") {
  size_t n_wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_float(static_cast<uint16_t>(bits));
    const bool is_special = (bits & 0x7C00) == 0x7C00;
    const bool is_nan = is_special && (bits & 0x3FF) != 0;
    const double infinity = std::numeric_limits<double>::infinity();
    bool is_right = false;
    if (is_nan) {
      is_right = std::isnan(value) && std::signbit(value) == ((bits & 0x8000) != 0);
    } else if (is_special) {
      is_right = is_same(value, (bits & 0x8000) != 0 ? -infinity : infinity);
    } else {
      is_right = is_same(value, value_of(bits, 5, 10));
    }
    if (!is_right) ++n_wrong;
  }
  REQUIRE(n_wrong == 0);
}

TEST_CASE("every BF16 pattern converts to its exact value") {
  size_t n_wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_float(static_cast<uint16_t>(bits));
    const bool is_special = (bits & 0x7F80) == 0x7F80;
    const bool is_right = !is_special          ? is_same(value, value_of(bits, 8, 7))
                          : (bits & 0x7F) != 0 ? std::isnan(value)
                                               : std::isinf(value);
    if (!is_right || std::signbit(value) != ((bits & 0x8000) != 0)) ++n_wrong;
  }
  REQUIRE(n_wrong == 0);
}

TEST_CASE("every FP8 E4M3 code converts to its exact value") {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const float value = fp8_e4m3_to_float(static_cast<uint8_t>(bits));
    CAPTURE(bits, value);
    if ((bits & 0x7F) == 0x7F) {
      REQUIRE(std::isnan(value));
    } else {
      REQUIRE(is_same(value, value_of(bits, 4, 3)));
    }
  }
  REQUIRE(fp8_e4m3_to_float(0x7E) == 448.0f);
  REQUIRE(fp8_e4m3_to_float(0x01) == 0.001953125f);
}

TEST_CASE("every code and every exponent of MXFP4 converts to its exact value") {
  const float magnitudes[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
  for (int code = 0; code < 16; ++code) {
    const float value = colibri::fp4_e2m1_to_float(static_cast<uint8_t>(code));
    REQUIRE(std::fabs(value) == magnitudes[code % 8]);
    REQUIRE(std::signbit(value) == (code >= 8));
  }
  for (int bits = 0; bits < 255; ++bits) {
    const float value = colibri::e8m0_to_float(static_cast<uint8_t>(bits));
    REQUIRE(value == std::ldexp(1.0f, bits - 127));
  }
  REQUIRE(std::isnan(colibri::e8m0_to_float(255)));
}

TEST_CASE("16-bit patterns survive the way to float and back") {
  size_t n_wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t pattern = static_cast<uint16_t>(bits);
    const uint16_t f16 = float_to_f16(f16_to_float(pattern));
    const uint16_t bf16 = float_to_bf16(bf16_to_float(pattern));
    const bool is_f16_nan = (bits & 0x7FFF) > 0x7C00;  // comes back quiet
    const bool is_bf16_nan = (bits & 0x7FFF) > 0x7F80;
    if (f16 != (is_f16_nan ? bits | 0x200 : bits)) ++n_wrong;
    if (bf16 != (is_bf16_nan ? bits | 0x40 : bits)) ++n_wrong;
  }
  REQUIRE(n_wrong == 0);
}

TEST_CASE("rounding to F16 is to the nearest, ties to even") {
  size_t n_wrong = 0;
  for_awkward_floats([&](float value) {
    const uint16_t bits = float_to_f16(value);
    bool is_right = false;
    if (std::isnan(value)) {
      is_right = (bits & 0x7FFF) > 0x7C00;
    } else if (std::fabs(value) >= 65536.0f) {
      is_right = (bits & 0x7FFF) == 0x7C00;
    } else {
      is_right = (bits & 0x7FFF) == nearest_by_search(std::fabs(value), 5, 10, 0x7C00);
    }
    if (!is_right || ((bits & 0x8000) != 0) != std::signbit(value)) ++n_wrong;
  });
  REQUIRE(n_wrong == 0);
}

TEST_CASE("rounding to BF16 is to the nearest, ties to even") {
  size_t n_wrong = 0;
  for_awkward_floats([&](float value) {
    const uint16_t bits = float_to_bf16(value);
    bool is_right = false;
    if (std::isnan(value)) {
      is_right = (bits & 0x7FFF) > 0x7F80;
    } else if (std::isinf(value)) {
      is_right = (bits & 0x7FFF) == 0x7F80;
    } else {
      is_right = (bits & 0x7FFF) == nearest_by_search(std::fabs(value), 8, 7, 0x7F80);
    }
    if (!is_right || ((bits & 0x8000) != 0) != std::signbit(value)) ++n_wrong;
  });
  REQUIRE(n_wrong == 0);
}

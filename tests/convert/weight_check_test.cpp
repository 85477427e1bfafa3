// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/weight_check.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

const std::string kName = "some.weight";

bool mentions(const Status &status, const std::string &text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a weight that is no finite number is named with its row and column") {
  std::vector<float> weights(30, 1.0f);
  CHECK(check_weights(kName, {70, 10}, weights).is_ok());
  weights[23] = std::nanf("");
  Status status = check_weights(kName, {70, 10}, weights);
  CHECK(status.code() == StatusCode::kNonFinite);
  CHECK(mentions(status, "some.weight is NaN in row 9, column 3"));
  weights[5] = -std::numeric_limits<float>::infinity();
  status = check_weights(kName, {70, 10}, weights);
  CHECK(mentions(status, "is infinite in row 7, column 5"));
}

TEST_CASE("stored elements of every float type are checked by their bits") {
  // Type to bit patterns that are no finite numbers, and the largest that are.
  struct Patterns {
    size_t bytes;
    std::vector<uint64_t> bad, good;
  };
  const std::map<TensorType, Patterns> types = {
      {TensorType::kF32,
       {4, {0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001}, {0x7F7FFFFF, 0xFF7FFFFF, 0}}},
      {TensorType::kBF16, {2, {0x7F80, 0xFF80, 0x7FC0}, {0x7F7F, 0xFF7F, 0x8000}}},
      {TensorType::kF16, {2, {0x7C00, 0xFC00, 0x7E01}, {0x7BFF, 0xFBFF, 1}}},
      {TensorType::kF8E4M3, {1, {0x7F, 0xFF}, {0x7E, 0xFE, 0x78}}},
      {TensorType::kF8E8M0, {1, {0xFF}, {0xFE, 0x7F, 0}}},
      {TensorType::kF64, {8, {0x7FF0000000000000, 0xFFF8000000000000}, {0x7FEFFFFFFFFFFFFF}}},
      {TensorType::kU8, {1, {}, {0xFF, 0x7F}}},
      {TensorType::kI64, {8, {}, {0x7FF0000000000000}}}};
  for (const auto &[type, patterns] : types) {
    INFO(tensor_type_name(type));
    const auto bytes_of = [&, n = patterns.bytes](uint64_t last) {
      std::vector<uint8_t> bytes(3 * n, 0);
      for (size_t i = 0; i < n; ++i) bytes[2 * n + i] = static_cast<uint8_t>(last >> (8 * i));
      return bytes;
    };
    for (const uint64_t pattern : patterns.good) {
      CHECK(check_stored(kName, type, {0, 2}, bytes_of(pattern)).is_ok());
    }
    for (const uint64_t pattern : patterns.bad) {
      const Status status = check_stored(kName, type, {0, 2}, bytes_of(pattern));
      CHECK(status.code() == StatusCode::kNonFinite);
      CHECK(mentions(status, "row 1, column 0"));
    }
  }
}

}  // namespace colibri::test

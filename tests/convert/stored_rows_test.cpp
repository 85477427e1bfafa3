// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/stored_rows.h"

#include <cstring>

#include "tests/convert/stored_matrix.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("any rows of a float or FP8 matrix are widened as the whole matrix is") {
  for (const char *form : {"F32", "F16", "BF16", "F8", "container F8"}) {
    for (const auto &[rows, columns] : kAwkwardShapes) {
      const StoredMatrix matrix(form, rows, columns);
      const std::vector<float> expected = matrix.weights();
      for (const uint64_t first : {uint64_t{0}, rows / 2, rows - 1}) {
        for (const uint64_t n : {uint64_t{1}, (rows - first + 1) / 2, rows - first}) {
          INFO(form << " " << rows << "x" << columns << ", rows " << first << "+" << n);
          StoredRows stored;
          stored.reserve(matrix.source(), n);
          REQUIRE(stored.read(matrix.index(), matrix.source(), first, n).is_ok());
          std::vector<float> weights(n * columns);
          stored.widen(weights.data());
          CHECK(std::memcmp(weights.data(), expected.data() + first * columns,
                            weights.size() * sizeof(float)) == 0);
        }
      }
    }
  }
}

TEST_CASE("room is only made where there is not enough, and other matrices may follow") {
  const StoredMatrix large("F8", 300, 257), small("BF16", 40, 3);
  StoredRows stored;
  stored.reserve(large.source(), 130);
  stored.reserve(small.source(), 16);
  REQUIRE(stored.read(large.index(), large.source(), 120, 130).is_ok());
  CHECK(stored.n_scale_rows() == 2);
  REQUIRE(stored.read(small.index(), small.source(), 30, 10).is_ok());
  CHECK(stored.n_scale_rows() == 0);
  std::vector<float> weights(30);
  stored.widen(weights.data());
  CHECK(std::memcmp(weights.data(), small.weights().data() + 90, 120) == 0);
}

TEST_CASE("a read that fails names the tensor") {
  const StoredMatrix matrix("BF16", 40, 30);
  WeightSource beyond = matrix.source();
  beyond.values.offset += 100'000;
  StoredRows stored;
  stored.reserve(beyond, 16);
  const Status status = stored.read(matrix.index(), beyond, 0, 16);
  CHECK(status.code() == StatusCode::kIo);
  CHECK(std::string(status.message()).find("tensor matrix: ") == 0);
}

}  // namespace colibri::test

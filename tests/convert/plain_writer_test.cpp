// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/plain_writer.h"

#include <cstring>

#include "lib/base/number_formats.h"
#include "tests/convert/random_model.h"
#include "tests/convert/stored_matrix.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

std::vector<uint8_t> collect(const std::function<void(ByteSink)> &write) {
  std::vector<uint8_t> bytes;
  write(
      [&](std::span<const uint8_t> part) { bytes.insert(bytes.end(), part.begin(), part.end()); });
  return bytes;
}

}  // namespace

TEST_CASE("a tensor of any size is copied byte by byte") {
  ThreadPool threads(2);
  for (const uint64_t rows : {1u, 1000u, 5000u}) {  // the last one takes several slices
    const StoredMatrix matrix("BF16", rows, 1111);
    PlainWriter writer(matrix.index(), threads);
    CHECK(collect([&](ByteSink sink) { writer.copy("matrix", sink); }) ==
          read_tensor(matrix.index(), "matrix"));
  }
}

TEST_CASE("a copied tensor with a weight that is no number is refused") {
  ThreadPool threads(2);
  std::vector<TestTensor> tensors = make_stored_matrix("BF16", "a.weight", 900, 1000);
  tensors[0].data.replace(2 * (1000 * 777 + 5), 2, "\x80\xff");
  const StoredMatrix matrix(tensors, 900, 1000);
  PlainWriter writer(matrix.index(), threads);
  expect_failure(StatusCode::kNonFinite, {"tensor a.weight", "row 777, column 5"},
                 [&] { collect([&](ByteSink sink) { writer.copy("a.weight", sink); }); });
}

TEST_CASE("tensors without elements or dimensions are copied") {
  ThreadPool threads(1);
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader(
      "x.safetensors",
      safetensors_file({{"empty", "F32", {0, 4}, ""}, {"scalar", "F32", {}, float_bytes({2})}})));
  const TensorIndex index = TensorIndex::from_readers(std::move(readers));
  PlainWriter writer(index, threads);
  CHECK(collect([&](ByteSink sink) { writer.copy("empty", sink); }).empty());
  CHECK(collect([&](ByteSink sink) { writer.copy("scalar", sink); }).size() == 4);
}

TEST_CASE("a matrix of any float form is rounded to the nearest BF16") {
  ThreadPool threads(2);
  for (const char *form : {"F32", "F16", "BF16", "F8"}) {
    for (const auto &[rows, columns] : kAwkwardShapes) {
      INFO(form << " " << rows << "x" << columns);
      const StoredMatrix matrix(form, rows, columns);
      PlainWriter writer(matrix.index(), threads);
      const std::vector<uint8_t> bytes =
          collect([&](ByteSink sink) { writer.round(matrix.source(), sink); });
      std::vector<uint16_t> expected;
      for (const float weight : matrix.weights()) expected.push_back(float_to_bf16(weight));
      REQUIRE(bytes.size() == 2 * expected.size());
      CHECK(std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);
    }
  }
}

TEST_CASE("a weight that is infinite, or becomes so in BF16, is refused") {
  ThreadPool threads(2);
  for (const uint32_t bits : {0x7F800000u, 0x7F7FFFFFu}) {
    std::vector<TestTensor> tensors = make_stored_matrix("F32", "a.weight", 40, 30);
    std::memcpy(tensors[0].data.data() + 4 * (30 * 20 + 9), &bits, sizeof bits);
    const StoredMatrix matrix(tensors, 40, 30);
    PlainWriter writer(matrix.index(), threads);
    expect_failure(StatusCode::kNonFinite, {"tensor a.weight", "row 20, column 9"},
                   [&] { collect([&](ByteSink sink) { writer.round(matrix.source(), sink); }); });
  }
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// What stored bytes mean, against values worked out by hand.

#include <cmath>

#include "lib/snapshot/weight_source.h"
#include "tests/snapshot/fixture.h"
#include "tests/snapshot/packed_shard.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TensorIndex index_of(const std::vector<TestTensor> &tensors) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("shard.safetensors", safetensors_file(tensors)));
  return TensorIndex::from_readers(std::move(readers));
}

std::vector<float> dequantise(const TensorIndex &index, uint64_t rows, uint64_t columns) {
  std::vector<float> values(rows * columns);
  read_dequantised(index, find_matrix(index, "w", rows, columns), values.data());
  return values;
}

TestTensor scales(const std::string &name, std::vector<uint64_t> shape,
                  const std::vector<float> &values) {
  return {name, "F32", std::move(shape), float_bytes(values)};
}

}  // namespace

TEST_CASE("plain types widen exactly, whatever the number of values") {
  const TensorIndex floats = index_of({{"w", "F32", {1, 3}, float_bytes({1.5f, -2.0f, 0.1f})}});
  CHECK(dequantise(floats, 1, 3) == std::vector<float>{1.5f, -2.0f, 0.1f});
  // 0x3FC0 is 1.5 and 0xC000 is -2 in BF16; 0x3E00 is 1.5 and 0xC000 is -2 in F16.
  const TensorIndex bf16 =
      index_of({{"w", "BF16", {1, 3}, std::string("\xC0\x3F\x00\xC0\x80\x3F", 6)}});
  CHECK(dequantise(bf16, 1, 3) == std::vector<float>{1.5f, -2.0f, 1.0f});
  const TensorIndex f16 =
      index_of({{"w", "F16", {1, 3}, std::string("\x00\x3E\x00\xC0\x00\x3C", 6)}});
  CHECK(dequantise(f16, 1, 3) == std::vector<float>{1.5f, -2.0f, 1.0f});
  std::vector<float> one(1);
  const TensorIndex single = index_of({{"n", "BF16", {1}, std::string("\xC0\x3F", 2)}});
  REQUIRE(read_as_float(single, find_vector(single, "n", 1), one.data()).is_ok());
  CHECK(one[0] == 1.5f);
}

TEST_CASE("int8 rows are signed bytes times the row's scale") {
  const TensorIndex index =
      index_of({scales("w.qs", {2}, {0.5f, 2.0f}),
                {"w", "U8", {6}, std::string("\x01\xFF\x80\x7F\x00\x02", 6)}});
  CHECK(dequantise(index, 2, 3) == std::vector<float>{0.5f, -0.5f, -64.0f, 254.0f, 0.0f, 4.0f});
}

TEST_CASE(
    "int4 rows have the even column in the low nibble and an offset of 8, rows begin on a byte") {
  // Three columns take two bytes; the padding nibble of each row must not show.
  const TensorIndex index = index_of(
      {scales("w.qs", {2}, {1.0f, 0.25f}), {"w", "U8", {4}, std::string("\xF0\xA9\x87\x58", 4)}});
  CHECK(dequantise(index, 2, 3) == std::vector<float>{-8.0f, 7.0f, 1.0f, -0.25f, 0.0f, 0.0f});
}

TEST_CASE("grouped int4 takes the scale of its group, also in a partial last group") {
  const uint64_t columns = 40;  // groups of 16, 16 and 8
  std::string bytes(2 * 20, '\x99');
  const TensorIndex index =
      index_of({scales("w.qs", {2, 3}, {1, 2, 3, 4, 5, 6}), {"w", "U8", {2, 20}, bytes}});
  const std::vector<float> values = dequantise(index, 2, columns);
  CHECK(values[0] == 1.0f);
  CHECK(values[15] == 1.0f);
  CHECK(values[16] == 2.0f);
  CHECK(values[39] == 3.0f);
  CHECK(values[40] == 4.0f);
  CHECK(values[79] == 6.0f);
}

TEST_CASE("block FP8 takes the scale of its block in both directions") {
  const uint64_t rows = 130, columns = 129;
  // 0x38 is 1.0 in E4M3.
  const TestTensor values = {"w", "F8_E4M3", {rows, columns}, std::string(rows * columns, '\x38')};
  const TensorIndex index = index_of({values, scales("w_scale_inv", {2, 2}, {1, 2, 3, 4})});
  const std::vector<float> result = dequantise(index, rows, columns);
  CHECK(result[0] == 1.0f);
  CHECK(result[127] == 1.0f);
  CHECK(result[128] == 2.0f);
  CHECK(result[127 * columns + 128] == 2.0f);
  CHECK(result[128 * columns] == 3.0f);
  CHECK(result[129 * columns + 128] == 4.0f);
}

TEST_CASE("block scales may be BF16 or powers of two in one byte") {
  const TestTensor values = {"w", "F8_E4M3", {1, 300}, std::string(300, '\x40')};  // 2.0
  const TensorIndex bf16 = index_of(
      {values, {"w_scale_inv", "BF16", {1, 3}, std::string("\xC0\x3F\x00\xC0\x80\x3F", 6)}});
  CHECK(dequantise(bf16, 1, 300)[0] == 3.0f);
  CHECK(dequantise(bf16, 1, 300)[299] == 2.0f);
  const TensorIndex e8m0 =
      index_of({values, {"w_scale_inv", "F8_E8M0", {1, 3}, std::string("\x7F\x80\x00", 3)}});
  CHECK(dequantise(e8m0, 1, 300)[0] == 2.0f);
  CHECK(dequantise(e8m0, 1, 300)[128] == 4.0f);
  CHECK(dequantise(e8m0, 1, 300)[299] == std::ldexp(1.0f, -126));
  const TensorIndex nan =
      index_of({values, {"w_scale_inv", "F8_E8M0", {1, 3}, std::string("\xFF\xFF\xFF", 3)}});
  CHECK(std::isnan(dequantise(nan, 1, 300)[0]));
}

TEST_CASE("packed matrices of every format have their weights") {
  using F = WeightFormat;
  const std::vector<MadeMatrix> all = {make_packed_matrix(F::kF32, 17, 9),
                                       make_packed_matrix(F::kBF16, 16, 8),
                                       make_packed_matrix(F::kF16, 1, 3),
                                       make_packed_matrix(F::kFp8, 130, 129, 128),
                                       make_packed_matrix(F::kInt8, 17, 33),
                                       make_packed_matrix(F::kInt8, 5, 40, 16),
                                       make_packed_matrix(F::kInt4, 17, 33),
                                       make_packed_matrix(F::kInt4, 40, 70, 32),
                                       make_packed_matrix(F::kInt4, 40, 70, 64, ScaleType::kBF16)};
  for (const MadeMatrix &made : all) {
    PackedShard shard;
    shard.add_matrix("w", made);
    std::vector<std::unique_ptr<Reader>> readers;
    readers.push_back(memory_reader("shard.safetensors", shard.file()));
    const TensorIndex index = TensorIndex::from_readers(std::move(readers));
    INFO(weight_format_name(made.layout.format) << " " << made.layout.columns);
    CHECK(dequantise(index, made.layout.columns, made.layout.depth) == made.weights);
  }
}

TEST_CASE("a read of quantised values as floats is refused, and one behind a file's end fails") {
  const TensorIndex index = index_of({scales("w.qs", {2}, {1, 1}), zeros("w", "U8", {6})});
  WeightSource source = find_matrix(index, "w", 2, 3);
  std::vector<float> values(6);
  CHECK_FALSE(read_as_float(index, source, values.data()).is_ok());
  source.values.offset += 1000;
  expect_failure(StatusCode::kIo, {}, [&] { read_dequantised(index, source, values.data()); });
}

}  // namespace colibri::test

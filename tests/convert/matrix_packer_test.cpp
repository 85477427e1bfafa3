// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/matrix_packer.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "lib/residency/weight_packing.h"
#include "tests/convert/stored_matrix.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

WeightLayout quantised_layout(const WeightSource &source, WeightFormat format, uint32_t group) {
  return colibri::quantised_layout(format, source.rows, source.columns, group);
}

std::vector<uint8_t> stream(const TensorIndex &index, const WeightSource &source,
                            const WeightLayout &layout, uint32_t n_threads,
                            ErrorSums *sums = nullptr) {
  ThreadPool threads(n_threads);
  MatrixPacker packer(index, threads, ScaleSearch::kSearch);
  std::vector<uint8_t> bytes;
  const ErrorSums found = packer.stream(source, layout, [&](std::span<const uint8_t> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  if (sums != nullptr) *sums = found;
  return bytes;
}

std::vector<uint8_t> stream(const StoredMatrix &matrix, const WeightLayout &layout,
                            uint32_t n_threads, ErrorSums *sums = nullptr) {
  return stream(matrix.index(), matrix.source(), layout, n_threads, sums);
}

// As the library packs the matrix when it opens the source.
std::vector<uint8_t> load(const TensorIndex &index, const WeightSource &source) {
  Buffer staging(staging_bytes(source), "staging");
  Buffer packed(packed_layout(source).total_bytes(), "packed");
  REQUIRE(
      load_packed(index, source, {staging.data(), staging.size()}, packed.data(), nullptr).is_ok());
  return {packed.data(), packed.data() + packed.size()};
}
std::vector<uint8_t> load(const StoredMatrix &matrix) {
  return load(matrix.index(), matrix.source());
}

const char *const kForms[] = {"F32",          "F16",  "BF16", "F8",
                              "container F8", "INT8", "INT4", "INT4 32"};

}  // namespace

TEST_CASE("a kept matrix has the very bytes that are packed when its source is opened") {
  for (const char *form : kForms) {
    for (const auto &[rows, columns] : kAwkwardShapes) {
      const StoredMatrix matrix(form, rows, columns);
      INFO(form << " " << rows << "x" << columns);
      ErrorSums sums;
      const std::vector<uint8_t> bytes = stream(matrix, packed_layout(matrix.source()), 1, &sums);
      CHECK(bytes == load(matrix));
      CHECK(sums.weight == 0);
    }
  }
}

TEST_CASE("a matrix that becomes INT4 or INT8 has the codes and scales of its rows") {
  for (const char *form : {"F32", "F16", "BF16", "F8", "container F8"}) {
    for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8}) {
      const StoredMatrix matrix(form, 150, 200);
      const WeightLayout layout = quantised_layout(matrix.source(), format, 64);
      ErrorSums sums;
      const std::vector<uint8_t> bytes = stream(matrix, layout, 2, &sums);
      REQUIRE(bytes.size() == layout.total_bytes());
      Buffer aligned(bytes.size(), "a copy");
      std::memcpy(aligned.data(), bytes.data(), bytes.size());
      const std::vector<float> weights = matrix.weights();
      std::vector<int8_t> codes(200);
      std::vector<float> scales(4);
      uint64_t n_wrong = 0;
      for (uint64_t row = 0; row < 150; ++row) {
        quantise_row(layout, ScaleSearch::kSearch, {weights.data() + row * 200, 200}, codes.data(),
                     scales.data());
        for (uint64_t i = 0; i < 200; ++i) {
          const float value = static_cast<float>(codes[i]) * scales[i / 64];
          n_wrong += unpack_weight({layout, aligned.data()}, row, i) != value;
        }
      }
      INFO(form << " to " << weight_format_name(format));
      CHECK(n_wrong == 0);
      CHECK(std::sqrt(sums.error / sums.weight) < (format == WeightFormat::kInt4 ? 0.15 : 0.01));
      CHECK(sums.error > 0);
    }
  }
}

TEST_CASE("the bytes do not depend on the number of threads, nor do the sums") {
  // Several slices: panels of 2 MiB.
  const StoredMatrix matrix("BF16", 16 * 21, 64 << 10);
  const WeightLayout layout = quantised_layout(matrix.source(), WeightFormat::kInt8, 128);
  ErrorSums one, three;
  const std::vector<uint8_t> expected = stream(matrix, layout, 1, &one);
  CHECK(stream(matrix, layout, 3, &three) == expected);
  CHECK(one.error == three.error);
  CHECK(one.weight == three.weight);
}

TEST_CASE("a weight or a scale that is no finite number is refused with its place") {
  const auto spoil = [](const char *form, size_t tensor, size_t at, const std::string &bytes) {
    std::vector<TestTensor> tensors = make_stored_matrix(form, "a.weight", 40, 130);
    tensors[tensor].data.replace(at, bytes.size(), bytes);
    return StoredMatrix(tensors, 40, 130);
  };
  const std::string infinity = float_bytes({std::numeric_limits<float>::infinity()});
  const auto refuse = [](const StoredMatrix &matrix, bool is_kept,
                         std::initializer_list<std::string_view> parts) {
    const WeightLayout layout = is_kept
                                    ? packed_layout(matrix.source())
                                    : quantised_layout(matrix.source(), WeightFormat::kInt4, 32);
    expect_failure(StatusCode::kNonFinite, parts, [&] { stream(matrix, layout, 2); });
  };
  for (const bool is_kept : {true, false}) {
    refuse(spoil("F32", 0, 4 * (130 * 33 + 7), infinity), is_kept,
           {"tensor a.weight", "infinite in row 33, column 7"});
    refuse(spoil("BF16", 0, 2 * (130 * 2 + 129), "\xc0\x7f"), is_kept,
           {"tensor a.weight", "NaN in row 2, column 129"});
    refuse(spoil("F8", 0, 130 * 16, "\x7f"), is_kept, {"tensor a.weight", "NaN in row 16"});
    refuse(spoil("F8", 1, 4, infinity), is_kept, {"scales", "tensor a.weight", "row 0, column 1"});
  }
  refuse(spoil("INT8", 1, 4 * 39, infinity), true, {"scales", "tensor a.weight", "row 39"});
  refuse(spoil("INT4 32", 1, 4 * (5 * 3 + 4), infinity), true,
         {"scales", "tensor a.weight", "row 3, column 4"});
}

TEST_CASE("MXFP4 is repacked, code for code and exponent for exponent, also every other row") {
  // The bytes of a plain tensor stand for 80 rows of 64 codes and their exponents.
  std::vector<TestTensor> tensors = make_stored_matrix("BF16", "a.weight", 40, 130);
  for (size_t i = 80 * 32; i < 80 * 34; ++i) tensors[0].data[i] = static_cast<char>(90 + i % 60);
  const StoredMatrix matrix(tensors, 40, 130);
  WeightSource source = matrix.source();
  source.format = StoredFormat::kMxFp4;
  source.columns = 64;
  source.scale_type = TensorType::kF8E8M0;
  source.scales = {source.values.file, source.values.offset + 80 * 32, 80 * 2};
  source.values.bytes = 80 * 32;
  for (const uint64_t step : {1, 2}) {
    source.rows = 80 / step;
    source.row_step = step;
    source.stored_rows = 80;
    source.first_row = step - 1;
    for (const uint32_t n_threads : {1u, 3u}) {
      ErrorSums sums;
      CHECK(stream(matrix.index(), source, packed_layout(source), n_threads, &sums) ==
            load(matrix.index(), source));
      CHECK(sums.weight == 0);
    }
  }
  tensors[0].data[80 * 32 + 7] = '\xff';
  const StoredMatrix spoilt(tensors, 40, 130);
  source.values.offset = spoilt.source().values.offset;
  source.scales.offset = source.values.offset + 80 * 32;
  expect_failure(StatusCode::kNonFinite, {"scales", "a.weight", "row 3, column 1"},
                 [&] { stream(spoilt.index(), source, packed_layout(source), 1); });
}

TEST_CASE("a matrix that is stored inputs first becomes what its transposition becomes") {
  std::vector<TestTensor> tensors = make_stored_matrix("BF16", "a.weight", 40, 130);
  const StoredMatrix rows(tensors, 40, 130);
  std::string transposed(tensors[0].data.size(), '\0');
  for (size_t r = 0; r < 40; ++r) {
    for (size_t d = 0; d < 130; ++d) {
      transposed.replace(2 * (d * 40 + r), 2, tensors[0].data, 2 * (r * 130 + d), 2);
    }
  }
  tensors[0].data = transposed;
  const StoredMatrix inputs_first(tensors, 40, 130);
  WeightSource source = inputs_first.source();
  source.is_transposed = true;
  source.stored_rows = 40;
  for (const WeightLayout &layout :
       {packed_layout(source), quantised_layout(source, WeightFormat::kInt4, 32)}) {
    CHECK(stream(inputs_first.index(), source, layout, 2) == stream(rows, layout, 2));
  }
}

TEST_CASE("a bias is widened to a plain F32 vector") {
  const StoredMatrix matrix("BF16", 40, 1);
  const WeightLayout layout = vector_layout(matrix.source());
  const std::vector<uint8_t> bytes = stream(matrix, layout, 1);
  REQUIRE(bytes.size() == 3 * 64);
  const std::vector<float> weights = matrix.weights();
  CHECK(std::memcmp(bytes.data(), weights.data(), 40 * sizeof(float)) == 0);
}

TEST_CASE("what the sink throws ends the matrix") {
  const StoredMatrix matrix("BF16", 40, 30);
  ThreadPool threads(2);
  MatrixPacker packer(matrix.index(), threads, ScaleSearch::kSearch);
  expect_failure(StatusCode::kCancelled, {"enough"}, [&] {
    packer.stream(matrix.source(), packed_layout(matrix.source()),
                  [](std::span<const uint8_t>) { throw_error(StatusCode::kCancelled, "enough"); });
  });
}

}  // namespace colibri::test

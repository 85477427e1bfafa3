// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/head_packer.h"

#include <cstring>

#include "tests/convert/stored_matrix.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr uint32_t kHeads = 5;
constexpr uint32_t kNope = 37;
constexpr uint32_t kValue = 50;
constexpr uint32_t kLatent = 70;
constexpr uint32_t kGroup = 32;

WeightLayout half_layout(WeightFormat format, uint32_t columns, uint32_t depth) {
  WeightLayout layout;
  layout.format = format;
  layout.columns = columns;
  layout.depth = depth;
  layout.group = kGroup;
  layout.scale_type = ScaleType::kBF16;
  return layout;
}

PackedLayout heads_layout(WeightFormat format) {
  return {PackedForm::kHeads,
          kHeads,
          {half_layout(format, kLatent, kNope), half_layout(format, kValue, kLatent)}};
}

std::vector<uint8_t> stream(const StoredMatrix &matrix, const PackedLayout &layout,
                            uint32_t n_threads) {
  ThreadPool threads(n_threads);
  HeadPacker packer(matrix.index(), threads, ScaleSearch::kSearch);
  std::vector<uint8_t> bytes;
  packer.stream(matrix.source(), layout, [&](std::span<const uint8_t> part) {
    bytes.insert(bytes.end(), part.begin(), part.end());
  });
  return bytes;
}

// Weights of [columns][depth] that the matrix at `place` does not have.
uint64_t count_differences(const WeightLayout &layout, const std::vector<float> &rows,
                           const uint8_t *place) {
  Buffer aligned(layout.total_bytes(), "a half");
  std::memcpy(aligned.data(), place, layout.total_bytes());
  std::vector<int8_t> codes(layout.depth);
  std::vector<float> scales(layout.scale_groups());
  uint64_t n = 0;
  for (uint32_t c = 0; c < layout.columns; ++c) {
    quantise_row(layout, ScaleSearch::kSearch, {rows.data() + c * layout.depth, layout.depth},
                 codes.data(), scales.data());
    for (uint32_t d = 0; d < layout.depth; ++d) {
      n += unpack_weight({layout, aligned.data()}, c, d) !=
           static_cast<float>(codes[d]) * scales[d / kGroup];
    }
  }
  return n;
}

}  // namespace

TEST_CASE("each head is its key half transposed and its value half, both quantised") {
  for (const char *form : {"F32", "BF16", "F8"}) {
    for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8}) {
      INFO(form << " to " << weight_format_name(format));
      const StoredMatrix matrix(form, kHeads * (kNope + kValue), kLatent);
      const PackedLayout layout = heads_layout(format);
      const std::vector<uint8_t> bytes = stream(matrix, layout, 2);
      REQUIRE(bytes.size() == kHeads * layout.head_bytes());
      const std::vector<float> weights = matrix.weights();
      for (uint32_t head = 0; head < kHeads; ++head) {
        const float *rows = weights.data() + head * (kNope + kValue) * kLatent;
        std::vector<float> key(kLatent * kNope);
        for (uint32_t c = 0; c < kLatent; ++c) {
          for (uint32_t d = 0; d < kNope; ++d) key[c * kNope + d] = rows[d * kLatent + c];
        }
        const std::vector<float> value(rows + kNope * kLatent, rows + (kNope + kValue) * kLatent);
        const uint8_t *place = bytes.data() + head * layout.head_bytes();
        CHECK(count_differences(layout.parts[0], key, place) == 0);
        CHECK(count_differences(layout.parts[1], value, place + layout.part_offset(1)) == 0);
      }
      CHECK(stream(matrix, layout, 1) == bytes);
    }
  }
}

TEST_CASE("a weight of a head that is no finite number is refused with its row in the source") {
  std::vector<TestTensor> tensors =
      make_stored_matrix("BF16", "kv_b", kHeads * (kNope + kValue), kLatent);
  tensors[0].data.replace(2 * (kLatent * 100 + 3), 2, "\x80\x7f");
  const StoredMatrix matrix(tensors, kHeads * (kNope + kValue), kLatent);
  expect_failure(StatusCode::kNonFinite, {"tensor kv_b", "infinite in row 100, column 3"},
                 [&] { stream(matrix, heads_layout(WeightFormat::kInt8), 2); });
}

}  // namespace colibri::test

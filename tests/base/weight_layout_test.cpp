// SPDX-License-Identifier: Apache-2.0
//
// The packed form against the formulas of lib/base/weight_layout.h, written down once more and
// plainly.

#include "lib/base/weight_layout.h"

#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "lib/base/number_formats.h"
#include "tests/support/catch.h"
#include "tests/support/guarded_array.h"

using colibri::pack_matrix;
using colibri::PackingSource;
using colibri::WeightFormat;
using colibri::WeightLayout;
using colibri::test::GuardedArray;

namespace {

size_t element_bytes(WeightFormat format) {
  if (format == WeightFormat::kF32) return 4;
  return format == WeightFormat::kBF16 || format == WeightFormat::kF16 ? 2 : 1;
}

size_t row_bytes(const WeightLayout &layout) {
  if (layout.format == WeightFormat::kInt4 || layout.format == WeightFormat::kMxFp4) {
    return (layout.depth + 1) / 2;
  }
  return layout.depth * element_bytes(layout.format);
}

// A whole tensor of random bytes with one scale per row and group (FP8: per block of 128 x 128).
struct Tensor {
  Tensor(const WeightLayout &layout, size_t first_row)
      : n_rows(first_row + layout.columns),
        values(n_rows * row_bytes(layout)),
        scales(n_scales(layout)) {
    std::mt19937 random(layout.columns * 131 + layout.depth);
    for (uint8_t &byte : values) byte = static_cast<uint8_t>(random());
    for (float &scale : scales) scale = static_cast<float>(random() % 256) / 8.0f;
  }
  size_t n_scales(const WeightLayout &layout) const {
    const size_t rows = layout.format == WeightFormat::kFp8 ? (n_rows + 127) / 128 : n_rows;
    return rows * layout.scale_groups();
  }

  size_t n_rows;
  GuardedArray<uint8_t> values;
  GuardedArray<float> scales;
};

void check_plain(const WeightLayout &layout, const Tensor &tensor, size_t first_row,
                 const uint8_t *packed) {
  const size_t bytes = element_bytes(layout.format);
  for (size_t c = 0; c < layout.n_panels() * 16; ++c) {
    for (size_t d = 0; d < layout.depth; ++d) {
      const uint8_t zero[4] = {};
      const uint8_t *expected =
          c < layout.columns ? &tensor.values[(first_row + c) * row_bytes(layout) + d * bytes]
                             : zero;
      const uint8_t *got = packed + (c / 16) * layout.panel_bytes() + (d * 16 + c % 16) * bytes;
      REQUIRE(std::memcmp(got, expected, bytes) == 0);
    }
  }
}

void check_integers(const WeightLayout &layout, const Tensor &tensor, size_t first_row,
                    const uint8_t *packed) {
  const bool is_int4 = layout.format == WeightFormat::kInt4;
  const size_t line_depths = is_int4 ? 8 : 4;
  const size_t padded = (layout.depth + line_depths - 1) / line_depths * line_depths;
  REQUIRE(layout.panel_bytes() == padded / line_depths * 64);
  for (size_t c = 0; c < layout.n_panels() * 16; ++c) {
    for (size_t d = 0; d < padded; ++d) {
      const uint8_t *line = packed + (c / 16) * layout.panel_bytes() + d / line_depths * 64;
      const int byte = line[4 * (c % 16) + d % 4];
      const int got = !is_int4 ? byte - 128 : (d % 8 < 4 ? byte & 15 : byte >> 4) - 8;
      int expected = 0;
      if (c < layout.columns && d < layout.depth) {
        const uint8_t *row = &tensor.values[(first_row + c) * row_bytes(layout)];
        expected = !is_int4 ? static_cast<int8_t>(row[d])
                            : (d % 2 == 0 ? row[d / 2] & 15 : row[d / 2] >> 4) - 8;
      }
      REQUIRE(got == expected);
    }
  }
}

void check_scales(const WeightLayout &layout, const Tensor &tensor, size_t first_row,
                  const uint8_t *packed) {
  const size_t n_groups = layout.scale_groups();
  for (size_t c = 0; c < layout.n_panels() * 16; ++c) {
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t index = ((c / 16) * n_groups + g) * 16 + c % 16;
      const uint8_t *scales = packed + layout.scale_offset();
      uint32_t bits = 0;
      if (layout.scale_type == colibri::ScaleType::kF32) {
        std::memcpy(&bits, scales + index * 4, 4);
      } else {
        bits = static_cast<uint32_t>(scales[2 * index] | scales[2 * index + 1] << 8) << 16;
      }
      const float got = std::bit_cast<float>(bits);
      const size_t row = first_row + c;
      const size_t scale_row = layout.format == WeightFormat::kFp8 ? row / 128 : row;
      REQUIRE(got == (c < layout.columns ? tensor.scales[scale_row * n_groups + g] : 0.0f));
    }
  }
}

void check_layout(const WeightLayout &layout, size_t first_row) {
  CAPTURE(weight_format_name(layout.format), layout.columns, layout.depth, layout.group, first_row);
  const Tensor tensor(layout, first_row);
  GuardedArray<uint8_t> packed(layout.total_bytes());
  REQUIRE(layout.total_bytes() % 64 == 0);
  pack_matrix(layout, {tensor.values.data(), tensor.scales.data(), nullptr, first_row},
              packed.data());
  if (layout.is_integer()) {
    check_integers(layout, tensor, first_row, packed.data());
  } else {
    check_plain(layout, tensor, first_row, packed.data());
  }
  check_scales(layout, tensor, first_row, packed.data());
  REQUIRE(packed.front_is_intact());
}

constexpr uint32_t kSizes[] = {1, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100};

}  // namespace

TEST_CASE("a packed matrix holds every weight where the layout says") {
  const WeightFormat format =
      GENERATE(WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kF16, WeightFormat::kFp8,
               WeightFormat::kInt8, WeightFormat::kInt4);
  WeightLayout layout;
  layout.format = format;
  if (layout.has_scales()) layout.group = format == WeightFormat::kFp8 ? 128 : 48;
  for (const uint32_t columns : kSizes) {
    for (const uint32_t depth : kSizes) {
      layout.columns = columns;
      layout.depth = depth;
      check_layout(layout, 0);
    }
  }
}

TEST_CASE("an FP8 slice may begin inside a block of scales") {
  WeightLayout layout;
  layout.format = WeightFormat::kFp8;
  layout.group = 128;
  layout.columns = 150;
  layout.depth = 300;
  for (const size_t first_row : {0u, 1u, 100u, 128u, 130u}) check_layout(layout, first_row);
}

TEST_CASE("a slice of an integer matrix takes its own rows and scales") {
  WeightLayout layout;
  layout.columns = 20;
  layout.depth = 70;
  layout.group = 32;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    layout.format = format;
    check_layout(layout, 9);
  }
}

TEST_CASE("one scale per row is one scale group") {
  WeightLayout layout;
  layout.columns = 33;
  layout.depth = 100;
  layout.group = colibri::kRowScaleActivationGroup;
  layout.has_row_scale = true;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    layout.format = format;
    REQUIRE(layout.scale_groups() == 1);
    check_layout(layout, 3);
  }
}

TEST_CASE("scales may be BF16, at half the bytes") {
  WeightLayout layout;
  layout.group = 32;
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const bool has_row_scale : {false, true}) {
      layout.format = format;
      layout.has_row_scale = has_row_scale;
      layout.scale_type = colibri::ScaleType::kBF16;
      for (const uint32_t columns : kSizes) {
        layout.columns = columns;
        layout.depth = 100;
        check_layout(layout, 3);
        REQUIRE(layout.scale_panel_bytes() == layout.scale_groups() * 32);
      }
    }
  }
}

TEST_CASE("what is quantised has groups with BF16 scales") {
  const WeightLayout layout = colibri::quantised_layout(WeightFormat::kInt4, 48, 128, 64);
  CHECK(layout.format == WeightFormat::kInt4);
  CHECK(layout.columns == 48);
  CHECK(layout.depth == 128);
  CHECK(layout.group == 64);
  CHECK_FALSE(layout.has_row_scale);
  CHECK(layout.scale_type == colibri::ScaleType::kBF16);
  // 3 panels of 16 lines of 64 bytes; scales of 2 groups of 16 columns for each panel.
  CHECK(layout.total_bytes() == 3 * 16 * 64 + 3 * 2 * 16 * 2);
}

TEST_CASE("a weight is read back as its value times its scale, rounded once") {
  for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kInt4}) {
    for (const colibri::ScaleType type : {colibri::ScaleType::kF32, colibri::ScaleType::kBF16}) {
      WeightLayout layout;
      layout.format = format;
      layout.columns = 21;
      layout.depth = 45;
      layout.group = 16;
      layout.scale_type = type;
      const Tensor tensor(layout, 0);
      GuardedArray<uint8_t> packed(layout.total_bytes());
      pack_matrix(layout, {tensor.values.data(), tensor.scales.data()}, packed.data());
      for (size_t c = 0; c < layout.columns; ++c) {
        for (size_t d = 0; d < layout.depth; ++d) {
          const uint8_t *row = &tensor.values[c * row_bytes(layout)];
          const int code = format == WeightFormat::kInt8
                               ? static_cast<int8_t>(row[d])
                               : (d % 2 == 0 ? row[d / 2] & 15 : row[d / 2] >> 4) - 8;
          REQUIRE(colibri::unpack_weight({layout, packed.data()}, c, d) ==
                  static_cast<float>(code) * tensor.scales[c * layout.scale_groups() + d / 16]);
        }
      }
    }
  }
}

namespace {

WeightLayout mxfp4_layout(uint32_t columns, uint32_t depth) {
  WeightLayout layout;
  layout.format = WeightFormat::kMxFp4;
  layout.columns = columns;
  layout.depth = depth;
  layout.group = colibri::kMxFp4Group;
  layout.scale_type = colibri::ScaleType::kE8M0;
  return layout;
}

// Rows first, first + step, .. of a tensor of random codes and exponents become columns.
void check_mxfp4(uint32_t columns, uint32_t depth, size_t first, size_t step) {
  CAPTURE(columns, depth, first, step);
  const WeightLayout layout = mxfp4_layout(columns, depth);
  const size_t n_rows = first + (columns - 1) * step + 1;
  const size_t code_bytes = (depth + 1) / 2, n_groups = (depth + 31) / 32;
  GuardedArray<uint8_t> codes(n_rows * code_bytes), exponents(n_rows * n_groups);
  std::mt19937 random(columns * 131 + depth);
  for (uint8_t &byte : codes) byte = static_cast<uint8_t>(random());
  for (uint8_t &byte : exponents) byte = static_cast<uint8_t>(100 + random() % 50);
  PackingSource source;
  source.values = codes.data();
  source.scale_bytes = exponents.data();
  source.first_row = first;
  source.row_step = step;
  GuardedArray<uint8_t> packed(layout.total_bytes());
  pack_matrix(layout, source, packed.data());
  REQUIRE(packed.front_is_intact());
  REQUIRE(layout.panel_bytes() == (depth + 7) / 8 * 64);
  REQUIRE(layout.scale_panel_bytes() == n_groups * 16);
  for (size_t c = 0; c < layout.n_panels() * 16; ++c) {
    const size_t row = first + c * step;
    for (size_t d = 0; d < (depth + 7) / 8 * 8; ++d) {
      const uint8_t byte =
          packed[c / 16 * layout.panel_bytes() + d / 8 * 64 + 4 * (c % 16) + d % 4];
      const int got = d % 8 < 4 ? byte & 15 : byte >> 4;
      if (c >= columns || d >= depth) {
        REQUIRE(got == 0);
        continue;
      }
      const uint8_t pair = codes[row * code_bytes + d / 2];
      const int code = d % 2 == 0 ? pair & 15 : pair >> 4;
      const uint8_t exponent = exponents[row * n_groups + d / 32];
      REQUIRE(got == code);
      const float weight =
          colibri::fp4_e2m1_to_float(static_cast<uint8_t>(code)) * colibri::e8m0_to_float(exponent);
      REQUIRE(colibri::unpack_weight({layout, packed.data()}, c, d) == weight);
    }
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t at = layout.scale_offset() + (c / 16 * n_groups + g) * 16 + c % 16;
      REQUIRE(packed[at] == (c < columns ? exponents[row * n_groups + g] : 0));
    }
  }
}

}  // namespace

TEST_CASE("MXFP4 is packed code for code and exponent for exponent") {
  for (const uint32_t columns : kSizes) {
    for (const uint32_t depth : kSizes) check_mxfp4(columns, depth, 0, 1);
  }
  check_mxfp4(20, 2880, 0, 1);
}

TEST_CASE("rows of gate and up that alternate become the columns of two matrices") {
  for (const size_t first : {0, 1}) {
    check_mxfp4(33, 96, first, 2);
    WeightLayout layout;
    layout.format = WeightFormat::kBF16;
    layout.columns = 33;
    layout.depth = 20;
    GuardedArray<uint8_t> tensor(66 * 40), packed(layout.total_bytes());
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint8_t>(i * 7 + i / 256);
    PackingSource source;
    source.values = tensor.data();
    source.first_row = first;
    source.row_step = 2;
    pack_matrix(layout, source, packed.data());
    for (size_t c = 0; c < 33; ++c) {
      for (size_t d = 0; d < 20; ++d) {
        const uint8_t *got = &packed[c / 16 * layout.panel_bytes() + (d * 16 + c % 16) * 2];
        REQUIRE(std::memcmp(got, &tensor[(first + 2 * c) * 40 + 2 * d], 2) == 0);
      }
    }
  }
}

TEST_CASE("a tensor with its inputs first is packed as its transposition is") {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kF16}) {
    for (const size_t step : {1, 2}) {
      WeightLayout layout;
      layout.format = format;
      layout.columns = 21;
      layout.depth = 34;
      const size_t n_rows = 3 + 21 * step, bytes = element_bytes(format);
      GuardedArray<uint8_t> rows(n_rows * 34 * bytes), transposed(rows.size());
      std::mt19937 random(5);
      for (uint8_t &byte : rows) byte = static_cast<uint8_t>(random());
      for (size_t r = 0; r < n_rows; ++r) {
        for (size_t d = 0; d < 34; ++d) {
          std::memcpy(&transposed[(d * n_rows + r) * bytes], &rows[(r * 34 + d) * bytes], bytes);
        }
      }
      PackingSource source;
      source.values = rows.data();
      source.first_row = 1;
      source.row_step = step;
      GuardedArray<uint8_t> expected(layout.total_bytes()), got(layout.total_bytes());
      pack_matrix(layout, source, expected.data());
      source.values = transposed.data();
      source.is_transposed = true;
      source.n_tensor_rows = n_rows;
      pack_matrix(layout, source, got.data());
      REQUIRE(std::memcmp(got.data(), expected.data(), got.size()) == 0);
    }
  }
}

TEST_CASE("formats have names for messages and files") {
  REQUIRE(weight_format_name(WeightFormat::kF32) == std::string("f32"));
  REQUIRE(weight_format_name(WeightFormat::kBF16) == std::string("bf16"));
  REQUIRE(weight_format_name(WeightFormat::kF16) == std::string("f16"));
  REQUIRE(weight_format_name(WeightFormat::kFp8) == std::string("fp8"));
  REQUIRE(weight_format_name(WeightFormat::kInt8) == std::string("int8"));
  REQUIRE(weight_format_name(WeightFormat::kInt4) == std::string("int4"));
  REQUIRE(weight_format_name(WeightFormat::kMxFp4) == std::string("mxfp4"));
  REQUIRE(scale_type_name(colibri::ScaleType::kE8M0) == std::string("e8m0"));
  REQUIRE(scale_type_name(colibri::ScaleType::kF32) == std::string("f32"));
  REQUIRE(scale_type_name(colibri::ScaleType::kBF16) == std::string("bf16"));
}

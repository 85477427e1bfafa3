// SPDX-License-Identifier: Apache-2.0
//
// Random data for the kernel tests. Every seed is fixed, so a failure repeats.

#include "tests/cpu/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/cpu_features.h"
#include "lib/base/number_formats.h"

namespace colibri::test {
namespace {

size_t source_row_bytes(const WeightLayout &layout) {
  switch (layout.format) {
    case WeightFormat::kF32:
      return 4 * layout.depth;
    case WeightFormat::kBF16:
    case WeightFormat::kF16:
      return 2 * layout.depth;
    case WeightFormat::kInt4:
    case WeightFormat::kMxFp4:
      return (layout.depth + 1) / 2;
    default:
      return layout.depth;
  }
}

size_t scale_row(const WeightLayout &layout, size_t row) {
  return layout.format == WeightFormat::kFp8 ? row / 128 : row;
}

void store_random(WeightFormat format, uint8_t *at, std::mt19937 &random) {
  std::normal_distribution<float> normal;
  const float value = normal(random);
  uint16_t half = format == WeightFormat::kBF16 ? float_to_bf16(value) : float_to_f16(value);
  if (format == WeightFormat::kF32) std::memcpy(at, &value, 4);
  if (format == WeightFormat::kBF16 || format == WeightFormat::kF16) std::memcpy(at, &half, 2);
}

}  // namespace

std::vector<KernelRow> runnable_rows() {
  std::vector<KernelRow> rows;
  const uint32_t features = cpu::detect_cpu_features() | cpu::kHabits;
  for (const KernelRow &row : cpu::kernel_rows()) {
    if ((row.needed_features & ~features) == 0) rows.push_back(row);
  }
  return rows;
}

std::vector<KernelRow> optimised_rows() {
  std::vector<KernelRow> rows = runnable_rows();
  rows.pop_back();
  return rows;
}

bool are_same(const float *a, const float *b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::memcmp(a + i, b + i, sizeof(float)) != 0) return false;
  }
  return true;
}

void fill_normal(GuardedArray<float> &array, std::mt19937 &random, float deviation) {
  std::normal_distribution<float> normal(0.0f, deviation);
  for (float &value : array) value = normal(random);
}

TestMatrix::TestMatrix(const WeightLayout &matrix_layout, std::mt19937 &random)
    : layout(matrix_layout),
      values(source_row_bytes(layout) * layout.columns),
      scales((scale_row(layout, layout.columns - 1) + 1) * layout.scale_groups()),
      packed(layout.total_bytes()) {
  const size_t element = layout.format == WeightFormat::kF32 ? 4 : 2;
  if (!layout.has_scales()) {
    for (size_t i = 0; i < values.size(); i += element) {
      store_random(layout.format, &values[i], random);
    }
  } else {
    for (uint8_t &byte : values) byte = static_cast<uint8_t>(random());
    if (layout.format == WeightFormat::kFp8) {
      std::replace(values.begin(), values.end(), uint8_t{0x7F}, uint8_t{0x01});
      std::replace(values.begin(), values.end(), uint8_t{0xFF}, uint8_t{0x81});
    }
  }
  std::uniform_real_distribution<float> scale(0.001f, 0.02f);
  for (float &value : scales) {
    value = scale(random);
    if (layout.scale_type == ScaleType::kBF16) value = bf16_to_float(float_to_bf16(value));
  }
  if (layout.format == WeightFormat::kMxFp4) {
    scale_bytes.resize(scales.size());
    for (uint8_t &byte : scale_bytes) byte = static_cast<uint8_t>(115 + random() % 12);
  }
  pack();
}

void TestMatrix::pack() {
  for (size_t i = 0; i < scale_bytes.size(); ++i) scales[i] = e8m0_to_float(scale_bytes[i]);
  pack_matrix(layout, {values.data(), scales.data(), scale_bytes.data()}, packed.data());
}

float TestMatrix::weight(size_t column, size_t d) const {
  const uint8_t *row = &values[column * source_row_bytes(layout)];
  float value = 0.0f;
  uint16_t half = 0;
  if (layout.format == WeightFormat::kF32) {
    std::memcpy(&value, row + 4 * d, 4);
    return value;
  }
  if (!layout.has_scales()) {
    std::memcpy(&half, row + 2 * d, 2);
    return layout.format == WeightFormat::kBF16 ? bf16_to_float(half) : f16_to_float(half);
  }
  const size_t group = layout.has_row_scale ? 0 : d / layout.group;
  const float scale = scales[scale_row(layout, column) * layout.scale_groups() + group];
  if (layout.format == WeightFormat::kFp8) return fp8_e4m3_to_float(row[d]) * scale;
  if (layout.format == WeightFormat::kInt8) {
    return static_cast<float>(static_cast<int8_t>(row[d])) * scale;
  }
  const int nibble = d % 2 == 0 ? row[d / 2] & 15 : row[d / 2] >> 4;
  if (layout.format == WeightFormat::kMxFp4) {
    return fp4_e2m1_to_float(static_cast<uint8_t>(nibble)) * scale;
  }
  return static_cast<float>(nibble - 8) * scale;
}

TestRows::TestRows(size_t rows, size_t row_depth, size_t row_group, std::mt19937 &random)
    : n_rows(rows),
      depth(row_depth),
      group(row_group),
      x(rows * row_depth),
      q(row_group == 0 ? 0 : rows * ((row_depth + 7) / 8 * 8)),
      scales(row_group == 0 ? 0 : rows * ((row_depth + row_group - 1) / row_group)),
      sums(scales.size()) {
  fill_normal(x, random);
  if (group == 0) return;
  const ActivationRows rows_view = view();
  for (size_t r = 0; r < n_rows; ++r) {
    cpu::kKernelSetRef.quantise_row(x.data() + r * depth, depth, group,
                                    q.data() + r * rows_view.quantised.q_stride,
                                    scales.data() + r * rows_view.quantised.group_stride,
                                    sums.data() + r * rows_view.quantised.group_stride);
  }
}

ActivationRows TestRows::view() {
  ActivationRows rows;
  rows.x = x.data();
  rows.x_stride = depth;
  rows.n_rows = static_cast<uint32_t>(n_rows);
  rows.depth = static_cast<uint32_t>(depth);
  if (group == 0) return rows;
  rows.quantised = {q.data(),
                    scales.data(),
                    sums.data(),
                    (depth + 7) / 8 * 8,
                    (depth + group - 1) / group,
                    static_cast<uint32_t>(group)};
  return rows;
}

WeightLayout make_layout(WeightFormat format, size_t columns, size_t depth, size_t group,
                         bool has_row_scale) {
  WeightLayout layout;
  layout.format = format;
  layout.columns = static_cast<uint32_t>(columns);
  layout.depth = static_cast<uint32_t>(depth);
  if (layout.has_scales()) {
    layout.group = format == WeightFormat::kFp8 ? 128 : static_cast<uint32_t>(group);
  }
  layout.has_row_scale = has_row_scale;
  if (format == WeightFormat::kMxFp4) {
    layout.group = kMxFp4Group;
    layout.scale_type = ScaleType::kE8M0;
    layout.has_row_scale = false;
  }
  return layout;
}

}  // namespace colibri::test

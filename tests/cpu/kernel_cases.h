// SPDX-License-Identifier: Apache-2.0
//
// What the kernel tests share: the kernel sets that this CPU can run, random packed matrices and
// rows behind guard pages, and the comparison of bits.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "cpu/kernel_registry.h"
#include "lib/backend/op_args.h"
#include "tests/support/guarded_array.h"

namespace colibri::test {

using cpu::KernelRow;
using cpu::KernelSet;

// Rows of the registry that this CPU can run, the reference last.
std::vector<KernelRow> runnable_rows();
// The same without the reference.
std::vector<KernelRow> optimised_rows();

// Equal bits; a NaN equals every NaN.
bool are_same(const float *a, const float *b, size_t n);

void fill_normal(GuardedArray<float> &array, std::mt19937 &random, float deviation = 1.0f);

// A random matrix in packed form. FP8 values are never NaN.
struct TestMatrix {
  TestMatrix(const WeightLayout &layout, std::mt19937 &random);
  PackedMatrix view() const { return {layout, packed.data()}; }
  // Packs again after a change of values or scale_bytes.
  void pack();
  // Dequantised weight as the contract defines it, from the unpacked source.
  float weight(size_t column, size_t d) const;

  WeightLayout layout;
  std::vector<uint8_t> values;
  std::vector<float> scales;         // MXFP4: of scale_bytes
  std::vector<uint8_t> scale_bytes;  // MXFP4 only
  GuardedArray<uint8_t> packed;
};

// Random rows and their quantised form (made by the reference).
struct TestRows {
  TestRows(size_t n_rows, size_t depth, size_t group, std::mt19937 &random);
  ActivationRows view();

  size_t n_rows, depth, group;
  GuardedArray<float> x;
  GuardedArray<int8_t> q;
  GuardedArray<float> scales;
  GuardedArray<int32_t> sums;
};

// Layout of a format with a fitting group: FP8 and MXFP4 have but one, and MXFP4 no row scales.
WeightLayout make_layout(WeightFormat format, size_t columns, size_t depth, size_t group,
                         bool has_row_scale = false);

}  // namespace colibri::test

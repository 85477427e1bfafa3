// SPDX-License-Identifier: Apache-2.0
//
// Row operations: every kernel set against the reference, bit for bit, behind guard pages; the
// reference against double precision.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "lib/base/number_formats.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::CombineRowArgs;
using colibri::cpu::kKernelSetRef;

namespace {

constexpr size_t kSizes[] = {1,  2,  7,  8,  9,  15, 16,  17,   23,
                             24, 25, 31, 33, 64, 65, 100, 2048, 6144};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Runs `op(set, y)` for the reference and every other set and compares the n floats of y.
template <typename Op>
void compare_sets(size_t n, Op op) {
  GuardedArray<float> expected(n);
  op(kKernelSetRef, expected);
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, n);
    GuardedArray<float> got(n);
    op(*row.set, got);
    REQUIRE(are_same(got.data(), expected.data(), n));
    REQUIRE(got.front_is_intact());
  }
}

struct Quantised {
  Quantised(size_t depth, size_t group)
      : q((depth + 7) / 8 * 8), scales((depth + group - 1) / group), sums(scales.size()) {}
  GuardedArray<int8_t> q;
  GuardedArray<float> scales;
  GuardedArray<int32_t> sums;
};

void quantise(const KernelSet &set, const GuardedArray<float> &x, size_t group, Quantised &out) {
  set.quantise_row(x.data(), x.size(), group, out.q.data(), out.scales.data(), out.sums.data());
}

void compare_quantised(const GuardedArray<float> &x, size_t group) {
  Quantised expected(x.size(), group);
  quantise(kKernelSetRef, x, group, expected);
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, x.size(), group);
    Quantised got(x.size(), group);
    quantise(*row.set, x, group, got);
    REQUIRE(std::memcmp(got.q.data(), expected.q.data(), got.q.size()) == 0);
    REQUIRE(are_same(got.scales.data(), expected.scales.data(), got.scales.size()));
    REQUIRE(std::memcmp(got.sums.data(), expected.sums.data(), 4 * got.sums.size()) == 0);
    REQUIRE(got.q.front_is_intact());
    REQUIRE(got.scales.front_is_intact());
    REQUIRE(got.sums.front_is_intact());
  }
}

// Normal numbers with the edges of exp among them.
void fill_wide(GuardedArray<float> &x, std::mt19937 &random) {
  fill_normal(x, random, 30.0f);
  const float edges[] = {0.0f,      -0.0f,      88.7228f, 88.73f, -87.336f, -87.34f,
                         kInfinity, -kInfinity, NAN,      1e-30f, -1e30f,   87.0f};
  for (size_t i = 0; i < std::min(x.size() / 2, std::size(edges)); ++i) x[2 * i] = edges[i];
}

}  // namespace

TEST_CASE("a quantised row has the reference's bits in every set") {
  std::mt19937 random(21);
  for (const size_t n : kSizes) {
    GuardedArray<float> x(n);
    for (const size_t group : {16, 32, 48, 64, 96, 128, 192, 256}) {
      fill_normal(x, random);
      compare_quantised(x, group);
    }
  }
}

TEST_CASE("ties, zeros, tiny groups and non-finite members quantise as the reference does") {
  GuardedArray<float> x(16 * 8);
  std::fill(x.begin(), x.end(), 0.0f);
  x[0] = 127.0f;
  for (size_t i = 1; i < 16; ++i) x[i] = static_cast<float>(i) - 8.5f;  // halves: ties
  x[32] = NAN;
  x[48] = kInfinity;
  x[64] = 1e-37f;  // 127 / amax overflows
  x[80] = 3.8e-37f;
  x[96] = std::numeric_limits<float>::max();
  x[97] = -x[96];
  x[112] = -0.0f;
  compare_quantised(x, 16);
  Quantised got(x.size(), 16);
  quantise(kKernelSetRef, x, 16, got);
  REQUIRE(got.scales[0] == 1.0f);
  REQUIRE(got.q[1] == -8);  // -7.5
  REQUIRE(got.q[2] == -6);  // -6.5
  REQUIRE(got.q[8] == 0);   // -0.5
  REQUIRE(got.q[10] == 2);  // 1.5
  REQUIRE((got.scales[1] == 0.0f && got.sums[1] == 0));
  REQUIRE((std::isnan(got.scales[2]) && got.q[32] == 0 && got.sums[2] == 0));
  REQUIRE((std::isnan(got.scales[3]) && got.q[48] == 0 && got.sums[3] == 0));
  REQUIRE((got.scales[4] == 0.0f && got.q[64] == 0));
  REQUIRE((got.scales[5] > 0.0f && got.q[80] == 127));
  REQUIRE((got.q[96] == 127 && got.q[97] == -127));
}

TEST_CASE("a quantised row is within half a step of its input") {
  std::mt19937 random(22);
  GuardedArray<float> x(1000);
  fill_normal(x, random);
  Quantised got(1000, 48);
  quantise(kKernelSetRef, x, 48, got);
  for (size_t i = 0; i < 1000; ++i) {
    const float scale = got.scales[i / 48];
    REQUIRE(std::fabs(x[i] - static_cast<float>(got.q[i]) * scale) <= 0.5001f * scale);
  }
  for (size_t g = 0; g < got.sums.size(); ++g) {
    int32_t sum = 0;
    for (size_t i = g * 48; i < std::min<size_t>(1000, (g + 1) * 48); ++i) sum += got.q[i];
    REQUIRE(got.sums[g] == sum);
  }
}

TEST_CASE("norms have the reference's bits in every set") {
  std::mt19937 random(23);
  for (const size_t n : kSizes) {
    GuardedArray<float> x(n), weight(n), bias(n);
    fill_normal(x, random);
    fill_normal(weight, random);
    fill_normal(bias, random);
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.rms_norm_row(x.data(), weight.data(), 1e-5f, n, y.data());
    });
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.layer_norm_row(x.data(), weight.data(), bias.data(), 1e-6f, n, y.data());
    });
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      std::copy(x.begin(), x.end(), y.begin());
      set.rms_norm_row(y.data(), weight.data(), 1e-5f, n, y.data());
    });
  }
}

TEST_CASE("the reference's norms agree with double precision") {
  std::mt19937 random(24);
  const size_t n = 777;
  GuardedArray<float> x(n), weight(n), bias(n), rms(n), layer(n);
  fill_normal(x, random);
  fill_normal(weight, random);
  fill_normal(bias, random);
  kKernelSetRef.rms_norm_row(x.data(), weight.data(), 1e-5f, n, rms.data());
  kKernelSetRef.layer_norm_row(x.data(), weight.data(), bias.data(), 1e-6f, n, layer.data());
  double sum = 0.0, squares = 0.0, centred = 0.0;
  for (const float value : x) sum += value;
  const double mean = sum / static_cast<double>(n);
  for (const float value : x) {
    squares += static_cast<double>(value) * value;
    centred += (value - mean) * (value - mean);
  }
  const double r = 1.0 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
  const double s = 1.0 / std::sqrt(centred / static_cast<double>(n) + 1e-6);
  for (size_t i = 0; i < n; ++i) {
    REQUIRE(rms[i] == Approx(weight[i] * (x[i] * r)).epsilon(1e-5).margin(1e-7));
    REQUIRE(layer[i] == Approx(weight[i] * (x[i] - mean) * s + bias[i]).epsilon(1e-5).margin(1e-6));
  }
}

TEST_CASE("rounding to 16 bits has the reference's bits in every set") {
  std::mt19937 random(15);
  for (const size_t n : kSizes) {
    GuardedArray<float> x(n);
    for (float &value : x) {
      const uint32_t bits = static_cast<uint32_t>(random());  // every kind of number
      std::memcpy(&value, &bits, sizeof value);
    }
    const float special[] = {0x1.01p0f,     0x1.03p0f, 0x1.002p0f, 65519.0f,   65520.0f,  3e38f,
                             0x1.ffffp127f, 0x1p-24f,  0x1p-25f,   0x1.8p-25f, kInfinity, NAN};
    for (size_t i = 0; i < n && i < std::size(special); ++i) x[i] = special[i];
    for (const KernelRow &row : runnable_rows()) {
      CAPTURE(row.name, n);
      GuardedArray<uint16_t> bf16(n), f16(n);
      row.set->bf16_row(x.data(), n, bf16.data());
      row.set->f16_row(x.data(), n, f16.data());
      for (size_t i = 0; i < n; ++i) {
        CAPTURE(i, x[i]);
        const float as_bf16 = bf16_to_float(bf16[i]);
        const float as_f16 = f16_to_float(f16[i]);
        const float expected_bf16 = bf16_to_float(float_to_bf16(x[i]));
        const float expected_f16 = f16_to_float(float_to_f16(x[i]));
        REQUIRE(are_same(&as_bf16, &expected_bf16, 1));
        REQUIRE(are_same(&as_f16, &expected_f16, 1));
      }
      REQUIRE(bf16.front_is_intact());
      REQUIRE(f16.front_is_intact());
    }
  }
}

TEST_CASE("silu and sigmoid have the reference's bits in every set") {
  std::mt19937 random(25);
  for (const size_t n : kSizes) {
    GuardedArray<float> gate(n), up(n);
    fill_wide(gate, random);
    fill_normal(up, random);
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.silu_row(gate.data(), up.data(), n, y.data());
    });
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.sigmoid_row(gate.data(), n, y.data());
    });
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      std::copy(gate.begin(), gate.end(), y.begin());
      set.silu_row(y.data(), up.data(), n, y.data());
    });
  }
}

TEST_CASE("the reference's silu and sigmoid agree with double precision") {
  for (float z = -40.0f; z < 40.0f; z += 0.37f) {
    const float one = 1.0f;
    float silu, sigmoid;
    kKernelSetRef.silu_row(&z, &one, 1, &silu);
    kKernelSetRef.sigmoid_row(&z, 1, &sigmoid);
    const double exact = 1.0 / (1.0 + std::exp(-static_cast<double>(z)));
    REQUIRE(sigmoid == Approx(exact).epsilon(1e-6));
    REQUIRE(silu == Approx(z * exact).epsilon(1e-6));
  }
}

TEST_CASE("add and combine have the reference's bits in every set") {
  std::mt19937 random(26);
  const float weights[] = {0.5f, -0.25f, 1.75f, 0.1f, 0.3f};
  for (const size_t n : kSizes) {
    GuardedArray<float> x(n), shared(n), out(4 * (n + 5) + n);
    fill_normal(x, random);
    fill_normal(shared, random);
    fill_normal(out, random);
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      std::copy(x.begin(), x.end(), y.begin());
      set.add_row(y.data(), shared.data(), n);
    });
    const float *addends[] = {nullptr, shared.data()};
    for (const float *addend : addends) {
      for (const size_t top_k : {0, 1, 5}) {
        compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
          std::copy(x.begin(), x.end(), y.begin());
          set.combine_row({y.data(), out.data(), n + 5, weights, top_k, addend, nullptr, n});
        });
        const float share = 0.37f;
        compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
          std::copy(x.begin(), x.end(), y.begin());
          set.combine_row({y.data(), out.data(), n + 5, weights, top_k, addend, &share, n});
        });
      }
    }
  }
}

TEST_CASE("combine is x plus the chain of weighted outputs plus shared") {
  float x[2] = {1.0f, 2.0f};
  const float out[6] = {10.0f, 20.0f, 0.0f, 30.0f, 40.0f, 0.0f};
  const float weights[2] = {0.5f, 0.25f};
  const float shared[2] = {100.0f, 200.0f};
  kKernelSetRef.combine_row(CombineRowArgs{x, out, 3, weights, 2, shared, nullptr, 2});
  REQUIRE(x[0] == 1.0f + 5.0f + 7.5f + 100.0f);
  REQUIRE(x[1] == 2.0f + 10.0f + 10.0f + 200.0f);
  const float share = 0.5f;
  kKernelSetRef.combine_row(CombineRowArgs{x, out, 3, weights, 2, shared, &share, 2});
  REQUIRE(x[0] == 113.5f + 5.0f + 7.5f + 50.0f);
}

TEST_CASE("clamped swish and softmax have the reference's bits in every set") {
  std::mt19937 random(27);
  for (const size_t n : kSizes) {
    GuardedArray<float> gate(n), up(n);
    fill_wide(gate, random);
    fill_wide(up, random);
    std::reverse(up.begin(), up.end());
    for (const float limit : {7.0f, 0.5f}) {
      compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
        set.clamped_swish_row({gate.data(), up.data(), n, limit, 1.702f, y.data()});
      });
      compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
        std::copy(gate.begin(), gate.end(), y.begin());
        set.clamped_swish_row({y.data(), up.data(), n, limit, 1.702f, y.data()});
      });
    }
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.softmax_row(gate.data(), n, y.data());
    });
    fill_normal(gate, random, 5.0f);
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.softmax_row(gate.data(), n, y.data());
    });
    std::fill(gate.begin(), gate.end(), -1000.0f);  // below what padding would hold
    compare_sets(n, [&](const KernelSet &set, GuardedArray<float> &y) {
      set.softmax_row(gate.data(), n, y.data());
    });
  }
}

TEST_CASE(
    "the reference's clamped swish agrees with double precision on both sides of its limits") {
  const auto clamped_swish = [](float gate, float up) {
    float y;
    kKernelSetRef.clamped_swish_row({&gate, &up, 1, 7.0f, 1.702f, &y});
    return y;
  };
  for (float gate = -30.0f; gate < 30.0f; gate += 0.71f) {
    for (float up = -20.0f; up < 20.0f; up += 0.93f) {
      const double a = std::min<double>(gate, 7.0);  // not clamped from below
      const double b = std::clamp<double>(up, -7.0, 7.0);
      const double expected = a / (1.0 + std::exp(-1.702 * a)) * (b + 1.0);
      REQUIRE(clamped_swish(gate, up) == Approx(expected).epsilon(1e-5).margin(1e-9));
    }
  }
  REQUIRE(clamped_swish(100.0f, 100.0f) == clamped_swish(7.0f, 7.0f));
  REQUIRE(clamped_swish(2.0f, -100.0f) == clamped_swish(2.0f, -7.0f));
  REQUIRE(std::isnan(clamped_swish(NAN, 1.0f)));
  REQUIRE(std::isnan(clamped_swish(1.0f, NAN)));
}

TEST_CASE("the reference's softmax agrees with double precision and adds up to one") {
  std::mt19937 random(28);
  const size_t n = 130;
  GuardedArray<float> x(n), y(n);
  fill_normal(x, random, 4.0f);
  kKernelSetRef.softmax_row(x.data(), n, y.data());
  double sum = 0.0, total = 0.0;
  for (const float value : x) sum += std::exp(static_cast<double>(value));
  for (size_t i = 0; i < n; ++i) {
    REQUIRE(y[i] == Approx(std::exp(static_cast<double>(x[i])) / sum).epsilon(1e-5).margin(1e-12));
    total += y[i];
  }
  REQUIRE(total == Approx(1.0));
}

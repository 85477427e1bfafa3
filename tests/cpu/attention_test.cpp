// SPDX-License-Identifier: Apache-2.0
//
// The attention kernel: every set against the reference, bit for bit; the reference against double
// precision.

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::attention_scratch_floats;
using colibri::cpu::AttentionKernelArgs;
using colibri::cpu::kKernelSetRef;

namespace {

struct Shape {
  size_t n_heads, key_width, value_width, n_keys;
};

// One row's inputs. Keys and values lie behind each other as in a latent cache: values are a part
// of the keys if the strides are equal, here they are separate arrays that end at guard pages.
struct Case {
  Case(const Shape &case_shape, bool has_positions, uint32_t seed)
      : shape(case_shape),
        n_cached(has_positions ? 2 * shape.n_keys + 3 : shape.n_keys),
        queries(shape.n_heads * shape.key_width),
        keys(n_cached * shape.key_width),
        values(n_cached * shape.value_width),
        positions(has_positions ? shape.n_keys : 0) {
    std::mt19937 random(seed);
    fill_normal(queries, random);
    fill_normal(keys, random);
    fill_normal(values, random);
    int32_t position = static_cast<int32_t>(n_cached) - 1;
    for (size_t i = positions.size(); i-- > 0;) {
      positions[i] = position;
      position -= 1 + static_cast<int32_t>(random() % 2);
    }
  }

  // [n_heads][value_width] with a gap of 2 between heads.
  void run(const KernelSet &set, GuardedArray<float> &out) {
    GuardedArray<float> scratch((attention_scratch_floats(shape.key_width, shape.n_heads) + 15) /
                                16 * 16);
    AttentionKernelArgs args = {};
    args.queries = queries.data();
    args.query_stride = shape.key_width;
    args.n_heads = shape.n_heads;
    args.keys = keys.data();
    args.key_stride = shape.key_width;
    args.values = values.data();
    args.value_stride = shape.value_width;
    args.positions = positions.size() != 0 ? positions.data() : nullptr;
    args.n_keys = shape.n_keys;
    args.key_width = shape.key_width;
    args.value_width = shape.value_width;
    args.scale = scale;
    args.scratch = scratch.data();
    args.out = out.data();
    args.out_stride = out_stride();
    set.attention(args);
  }
  size_t out_stride() const { return shape.value_width + 2; }
  size_t out_size() const { return (shape.n_heads - 1) * out_stride() + shape.value_width; }

  Shape shape;
  size_t n_cached;
  float scale = 0.3f;
  GuardedArray<float> queries, keys, values;
  GuardedArray<int32_t> positions;
};

void compare_sets(Case &one) {
  GuardedArray<float> expected(one.out_size());
  one.run(kKernelSetRef, expected);
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, one.shape.n_heads, one.shape.key_width, one.shape.value_width,
            one.shape.n_keys, one.positions.size());
    GuardedArray<float> got(one.out_size());
    one.run(*row.set, got);
    REQUIRE(are_same(got.data(), expected.data(), got.size()));
    REQUIRE(got.front_is_intact());
  }
}

}  // namespace

TEST_CASE("attention has the reference's bits for every number of keys") {
  for (const bool has_positions : {false, true}) {
    for (const size_t n_keys : {1, 2, 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 128, 130, 300}) {
      Case one({5, 24, 20, n_keys}, has_positions, 31);
      compare_sets(one);
    }
  }
}

TEST_CASE("attention has the reference's bits for every number of heads") {
  for (size_t n_heads = 1; n_heads <= 18; ++n_heads) {
    Case one({n_heads, 16, 16, 70}, false, 32);
    compare_sets(one);
  }
}

TEST_CASE("attention has the reference's bits for awkward widths") {
  for (const size_t width : {1, 3, 4, 5, 15, 16, 17, 31, 33, 64, 65, 100}) {
    Case keys({3, width, 16, 67}, true, 33);
    compare_sets(keys);
    Case values({3, 16, width, 67}, true, 33);
    compare_sets(values);
  }
}

TEST_CASE("attention has the reference's bits for the production shape") {
  Case one({64, 576, 512, 200}, true, 34);
  compare_sets(one);
}

TEST_CASE("attention has the reference's bits with large scores and non-finite keys") {
  Case one({3, 16, 16, 200}, false, 35);
  one.scale = 100.0f;  // most probabilities vanish, blocks differ by more than exp can hold
  compare_sets(one);
  one.keys[70 * 16] = std::numeric_limits<float>::infinity();
  compare_sets(one);
  one.keys[5 * 16] = NAN;
  compare_sets(one);
}

TEST_CASE("the reference's attention agrees with double precision") {
  for (const size_t n_keys : {1, 64, 65, 500}) {
    Case one({2, 40, 24, n_keys}, true, 36);
    GuardedArray<float> got(one.out_size());
    one.run(kKernelSetRef, got);
    for (size_t h = 0; h < 2; ++h) {
      std::vector<double> p(n_keys);
      for (size_t k = 0; k < n_keys; ++k) {
        const float *key = &one.keys[static_cast<size_t>(one.positions[k]) * 40];
        for (size_t d = 0; d < 40; ++d)
          p[k] += static_cast<double>(one.queries[h * 40 + d]) * key[d];
        p[k] = std::exp(p[k] * static_cast<double>(one.scale));
      }
      const double sum = std::accumulate(p.begin(), p.end(), 0.0);
      for (size_t c = 0; c < 24; ++c) {
        double value = 0.0;
        for (size_t k = 0; k < n_keys; ++k) {
          value += p[k] / sum * one.values[static_cast<size_t>(one.positions[k]) * 24 + c];
        }
        REQUIRE(got[h * one.out_stride() + c] == Approx(value).epsilon(1e-4).margin(2e-6));
      }
    }
  }
}

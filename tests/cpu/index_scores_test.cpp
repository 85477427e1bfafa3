// SPDX-License-Identifier: Apache-2.0
//
// The index score kernel: every set against the reference, bit for bit; the reference against
// double precision.

#include <cmath>

#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::IndexScoresKernelArgs;
using colibri::cpu::kKernelSetRef;

namespace {

struct Case {
  Case(size_t heads, size_t key_width, size_t first, size_t keys)
      : n_heads(heads),
        width(key_width),
        first_key(first),
        n_keys(keys),
        queries(heads * key_width),
        weights(heads),
        panels((first + keys + 15) / 16 * 16 * key_width) {
    std::mt19937 random(41);
    fill_normal(queries, random);
    fill_normal(weights, random);
    fill_normal(panels, random);
  }
  void run(const KernelSet &set, GuardedArray<float> &scores) {
    IndexScoresKernelArgs args = {};
    args.queries = queries.data();
    args.weights = weights.data();
    args.n_heads = n_heads;
    args.width = width;
    args.key_panels = panels.data();
    args.first_key = first_key;
    args.n_keys = n_keys;
    args.scale = 0.125f;
    args.scores = scores.data();
    set.index_scores(args);
  }
  void compare_sets() {
    GuardedArray<float> expected(first_key + n_keys);
    run(kKernelSetRef, expected);
    for (const KernelRow &row : optimised_rows()) {
      CAPTURE(row.name, n_heads, width, first_key, n_keys);
      GuardedArray<float> got(first_key + n_keys);
      run(*row.set, got);
      REQUIRE(are_same(got.data(), expected.data(), got.size()));
      for (size_t i = 0; i < first_key; ++i) REQUIRE(got.is_untouched(i));
    }
  }

  size_t n_heads, width, first_key, n_keys;
  GuardedArray<float> queries, weights, panels;
};

}  // namespace

TEST_CASE("index scores have the reference's bits for awkward sizes") {
  for (const size_t n_keys : {1, 15, 16, 17, 31, 32, 33, 47, 48, 49, 64, 65, 100, 200}) {
    for (const size_t n_heads : {1, 2, 4, 5, 7, 8, 9, 17}) {
      Case(n_heads, 12, 0, n_keys).compare_sets();
      Case(n_heads, 5, 32, n_keys).compare_sets();
    }
  }
}

TEST_CASE("index scores have the reference's bits for the production shape") {
  Case(32, 128, 512, 300).compare_sets();
}

TEST_CASE("the reference's index scores agree with double precision") {
  Case one(3, 40, 16, 20);
  GuardedArray<float> got(36);
  one.run(kKernelSetRef, got);
  for (size_t s = 16; s < 36; ++s) {
    double score = 0.0;
    for (size_t h = 0; h < 3; ++h) {
      double dot = 0.0;
      for (size_t d = 0; d < 40; ++d) {
        dot += static_cast<double>(one.queries[h * 40 + d]) *
               one.panels[(s / 16 * 40 + d) * 16 + s % 16];
      }
      score += one.weights[h] * std::fmax(dot * 0.125, 0.0);
    }
    REQUIRE(got[s] == Approx(score).epsilon(1e-5).margin(1e-6));
  }
}

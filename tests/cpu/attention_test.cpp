// SPDX-License-Identifier: Apache-2.0
//
// The attention kernels: every set against the reference, bit for bit; the reference against double
// precision.

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/layer_math.h"
#include "lib/base/number_formats.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::attention_scratch_floats;
using colibri::cpu::AttentionQuery;
using colibri::cpu::AttentionSpanArgs;
using colibri::cpu::kAttentionSpan;
using colibri::cpu::kKernelSetRef;
using colibri::cpu::kMaxAttentionQueries;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr KvType kTypes[] = {KvType::kF32, KvType::kBF16, KvType::kF16};

// Numbers that a query sees: [first, end).
struct Seen {
  uint32_t first, end;
};

struct Shape {
  std::vector<Seen> seen;  // per query
  size_t key_width = 24;
  size_t value_width = 20;
  KvType type = KvType::kF32;
  size_t ring = 0;
  bool has_positions = false;
};

// The same range for `group` heads of each row, as of a prompt with a window.
std::vector<Seen> causal_rows(uint32_t first_position, size_t n_rows, size_t group,
                              uint32_t window = 1u << 30) {
  std::vector<Seen> seen;
  for (size_t r = 0; r < n_rows; ++r) {
    const uint32_t end = first_position + static_cast<uint32_t>(r) + 1;
    const uint32_t first = end > window ? end - window : 0;
    seen.insert(seen.end(), group, Seen{first, end});
  }
  return seen;
}

// Rows of keys or values in a format of slots; they end at a guard page.
class StoredRows {
 public:
  StoredRows(size_t n_rows, size_t width, KvType type, std::mt19937 &random)
      : width_(width), type_(type), bytes_(n_rows * width * kv_type_bytes(type)) {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < n_rows * width; ++i) set(i, normal(random));
  }
  void set(size_t i, float value) {
    if (type_ == KvType::kF32) {
      reinterpret_cast<float *>(bytes_.data())[i] = value;
      return;
    }
    reinterpret_cast<uint16_t *>(bytes_.data())[i] =
        type_ == KvType::kBF16 ? float_to_bf16(value) : float_to_f16(value);
  }
  void fill_row(size_t row, float value) {
    for (size_t i = 0; i < width_; ++i) set(row * width_ + i, value);
  }
  float get(size_t row, size_t column) const {
    const size_t i = row * width_ + column;
    if (type_ == KvType::kF32) return reinterpret_cast<const float *>(bytes_.data())[i];
    const uint16_t stored = reinterpret_cast<const uint16_t *>(bytes_.data())[i];
    return type_ == KvType::kBF16 ? bf16_to_float(stored) : f16_to_float(stored);
  }
  const void *data() const { return bytes_.data(); }

 private:
  size_t width_;
  KvType type_;
  GuardedArray<uint8_t> bytes_;
};

size_t largest_end(const std::vector<Seen> &seen) {
  size_t end = 0;
  for (const Seen &one : seen) end = std::max<size_t>(end, one.end);
  return end;
}

size_t count_places(const Shape &shape) {
  if (shape.ring != 0) return shape.ring;
  const size_t end = largest_end(shape.seen);
  return shape.has_positions ? 2 * end + 3 : end;
}

struct Case {
  Case(const Shape &case_shape, uint32_t seed)
      : shape(case_shape),
        random(seed),
        queries(shape.seen.size() * shape.key_width),
        keys(count_places(shape), shape.key_width, shape.type, random),
        values(count_places(shape), shape.value_width, shape.type, random),
        positions(shape.has_positions ? largest_end(shape.seen) : 0) {
    fill_normal(queries, random);
    int32_t position = static_cast<int32_t>(count_places(shape)) - 1;
    for (size_t i = positions.size(); i-- > 0;) {
      positions[i] = position;
      position -= 1 + static_cast<int32_t>(random() % 2);
    }
  }

  size_t n_queries() const { return shape.seen.size(); }
  size_t place_of(size_t number) const {
    const size_t position = positions.size() != 0 ? static_cast<size_t>(positions[number]) : number;
    return shape.ring != 0 ? position % shape.ring : position;
  }

  // One call: results of the queries that see the span; of others nothing is written.
  void run_span(const KernelSet &set, size_t first_number, GuardedArray<float> &out,
                GuardedArray<float> &numbers) {
    GuardedArray<float> scratch(
        (attention_scratch_floats(shape.key_width, shape.value_width, n_queries()) + 15) / 16 * 16);
    std::vector<AttentionQuery> list;
    for (size_t i = 0; i < n_queries(); ++i) {
      list.push_back({queries.data() + i * shape.key_width, shape.seen[i].first, shape.seen[i].end,
                      out.data() + i * shape.value_width, numbers.data() + 2 * i});
    }
    AttentionSpanArgs args = {};
    args.queries = list.data();
    args.n_queries = n_queries();
    args.first_number = first_number;
    args.keys = keys.data();
    args.key_stride = shape.key_width;
    args.values = values.data();
    args.value_stride = shape.value_width;
    args.positions = positions.size() != 0 ? positions.data() : nullptr;
    args.ring = shape.ring;
    args.key_width = shape.key_width;
    args.value_width = shape.value_width;
    args.scale = scale;
    args.scratch = scratch.data();
    set.attention_span[static_cast<size_t>(shape.type)](args);
    REQUIRE(scratch.front_is_intact());
    REQUIRE(out.front_is_intact());
    REQUIRE(numbers.front_is_intact());
  }

  // [query][value_width] of whole rows, and behind them m and l of each.
  std::vector<float> run(const KernelSet &set, const float *sink = nullptr) {
    const size_t width = shape.value_width;
    std::vector<float> out(n_queries() * width);
    std::vector<float> numbers(n_queries() * 2);
    for (size_t span = 0; span < largest_end(shape.seen); span += kAttentionSpan) {
      GuardedArray<float> next(n_queries() * width);
      GuardedArray<float> next_numbers(n_queries() * 2);
      run_span(set, span, next, next_numbers);
      for (size_t i = 0; i < n_queries(); ++i) {
        const Seen &seen = shape.seen[i];
        if (seen.end <= span || seen.first >= span + kAttentionSpan) {
          REQUIRE(next.is_untouched(i * width));
          REQUIRE(next_numbers.is_untouched(2 * i));
        } else if (seen.first >= span || span == 0) {
          std::copy_n(&next[i * width], width, &out[i * width]);
          std::copy_n(&next_numbers[2 * i], 2, &numbers[2 * i]);
        } else {
          set.attention_merge(&numbers[2 * i], &out[i * width], &next_numbers[2 * i],
                              &next[i * width], width);
        }
      }
    }
    for (size_t i = 0; i < n_queries(); ++i) {
      set.attention_finish(&numbers[2 * i], sink, &out[i * width], width);
    }
    out.insert(out.end(), numbers.begin(), numbers.end());
    return out;
  }

  Shape shape;
  float scale = 0.3f;
  std::mt19937 random;
  GuardedArray<float> queries;
  StoredRows keys, values;
  GuardedArray<int32_t> positions;
};

void compare_sets(Case &one, const float *sink = nullptr) {
  const std::vector<float> expected = one.run(kKernelSetRef, sink);
  for (const KernelRow &row : optimised_rows()) {
    CAPTURE(row.name, one.n_queries(), one.shape.key_width, one.shape.value_width, one.shape.type,
            one.shape.ring, one.shape.has_positions, one.shape.seen.back().first,
            one.shape.seen.back().end);
    const std::vector<float> got = one.run(*row.set, sink);
    REQUIRE(are_same(got.data(), expected.data(), got.size()));
  }
}

void compare_sets(const Shape &shape, uint32_t seed) {
  Case one(shape, seed);
  compare_sets(one);
}

}  // namespace

TEST_CASE("attention has the reference's bits for every number of keys") {
  for (const bool has_positions : {false, true}) {
    for (const uint32_t n : {1, 2, 15, 16, 17, 33, 63, 64, 65, 130, 511, 512, 513, 1100}) {
      Shape shape;
      shape.seen = std::vector<Seen>(5, Seen{0, n});
      shape.has_positions = has_positions;
      compare_sets(shape, 31);
    }
  }
}

TEST_CASE("attention has the reference's bits for every number of queries") {
  std::vector<size_t> counts(36);
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = i + 1;
  counts.insert(counts.end(), {63, 64, 65, 127, kMaxAttentionQueries});
  for (const size_t n : counts) {
    Shape shape;
    shape.seen = std::vector<Seen>(n, Seen{0, 70});
    shape.value_width = 16;
    compare_sets(shape, 32);
  }
}

TEST_CASE("attention has the reference's bits for awkward widths in every number format") {
  for (const KvType type : kTypes) {
    for (const size_t width :
         {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129}) {
      Shape shape;
      shape.type = type;
      shape.seen = causal_rows(65, 3, 3);
      shape.key_width = width;
      compare_sets(shape, 33);
      std::swap(shape.key_width, shape.value_width);
      compare_sets(shape, 33);
    }
  }
}

TEST_CASE("attention has the reference's bits for the production shape of latent attention") {
  for (const KvType type : kTypes) {
    Shape shape;
    shape.seen = std::vector<Seen>(64, Seen{0, 200});
    shape.key_width = 576;
    shape.value_width = 512;
    shape.type = type;
    shape.has_positions = true;
    compare_sets(shape, 34);
  }
}

TEST_CASE("attention has the reference's bits along the diagonal of a prompt") {
  for (const KvType type : kTypes) {
    for (const size_t group : {1, 2, 3, 4, 5, 7, 8, 16}) {
      for (const uint32_t first : {0u, 50u, 500u}) {
        Shape shape;
        shape.type = type;
        shape.seen = causal_rows(first, std::min<size_t>(kMaxAttentionQueries / group, 30), group);
        compare_sets(shape, 35);
      }
    }
  }
}

TEST_CASE("attention has the reference's bits at the edges of windows") {
  for (const uint32_t window : {1u, 2u, 12u, 16u, 63u, 64u, 65u, 128u, 511u, 512u, 513u}) {
    for (const uint32_t first : {0u, 55u, 120u, 500u, 570u}) {
      Shape shape;
      shape.seen = causal_rows(first, 18, 3, window);
      compare_sets(shape, 36);
    }
  }
}

TEST_CASE("attention has the reference's bits over rings") {
  for (const KvType type : kTypes) {
    for (const uint32_t first : {0u, 60u, 120u, 127u, 500u, 1000u}) {
      Shape shape;
      shape.type = type;
      shape.ring = 128;
      shape.seen = causal_rows(first, 20, 2, 100);
      compare_sets(shape, 37);
    }
  }
}

TEST_CASE("attention has the reference's bits if queries see different and disjoint keys") {
  std::mt19937 random(38);
  for (int repeat = 0; repeat < 40; ++repeat) {
    Shape shape;
    shape.type = kTypes[repeat % 3];
    shape.has_positions = repeat % 4 == 0;
    const size_t n = 1 + random() % 40;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t first = static_cast<uint32_t>(random() % 700);
      shape.seen.push_back({first, first + 1 + static_cast<uint32_t>(random() % 200)});
    }
    compare_sets(shape, static_cast<uint32_t>(random()));
  }
}

TEST_CASE("a ring gives the bits of a slot that keeps everything") {
  Shape shape;
  shape.seen = causal_rows(700, 20, 2, 100);
  Case whole(shape, 39);
  shape.ring = 128;
  Case ring(shape, 39);
  std::copy(whole.queries.begin(), whole.queries.end(), ring.queries.begin());
  for (size_t number = 601; number < 720; ++number) {
    for (size_t i = 0; i < shape.key_width; ++i) {
      ring.keys.set(number % 128 * shape.key_width + i, whole.keys.get(number, i));
    }
    for (size_t i = 0; i < shape.value_width; ++i) {
      ring.values.set(number % 128 * shape.value_width + i, whole.values.get(number, i));
    }
  }
  for (const KernelRow &row : runnable_rows()) {
    const std::vector<float> expected = whole.run(*row.set);
    REQUIRE(are_same(ring.run(*row.set).data(), expected.data(), expected.size()));
  }
}

TEST_CASE("keys that a query does not see have no part in its result") {
  for (const float poison : {NAN, kInfinity}) {
    for (const KvType type : kTypes) {
      Shape shape;
      shape.type = type;
      shape.seen = {{0, 50}, {0, 50}, {30, 101}, {0, 50}, {99, 100}};
      Case one(shape, 40);
      for (const KernelRow &row : runnable_rows()) {
        CAPTURE(row.name, poison);
        Case poisoned(shape, 40);
        const std::vector<float> expected = one.run(*row.set);
        for (const size_t number : {50, 60, 98, 100}) {
          poisoned.keys.fill_row(number, poison);
          poisoned.values.fill_row(number, poison);
        }
        const std::vector<float> got = poisoned.run(*row.set);
        for (const size_t i : {0, 1, 3, 4}) {
          REQUIRE(are_same(&got[i * 20], &expected[i * 20], 20));
        }
        REQUIRE(std::isnan(got[2 * 20]));
      }
    }
  }
}

TEST_CASE("attention has the reference's bits with large scores and non-finite keys") {
  for (const KvType type : kTypes) {
    Shape shape;
    shape.type = type;
    shape.seen = causal_rows(600, 5, 2);
    Case one(shape, 41);
    one.scale = 100.0f;  // most probabilities vanish, blocks differ by more than exp can hold
    compare_sets(one);
    one.keys.set(70 * 24, kInfinity);
    compare_sets(one);
    one.keys.set(5 * 24, NAN);
    compare_sets(one);
    one.values.set(7 * 20 + 3, -kInfinity);
    compare_sets(one);
    for (size_t number = 0; number < 128; ++number) one.keys.fill_row(number, NAN);
    compare_sets(one);
  }
}

TEST_CASE("attention has the reference's bits with every kind of sink") {
  for (const float sink : {0.0f, -3.5f, 2.0f, 80.0f, 1e30f, -1e30f, kInfinity, -kInfinity, NAN}) {
    Shape shape;
    shape.seen = causal_rows(70, 4, 4);
    Case one(shape, 42);
    compare_sets(one, &sink);
  }
  const float none = -kInfinity;
  Shape shape;
  shape.seen = causal_rows(70, 4, 4);
  Case one(shape, 43);
  const std::vector<float> without = one.run(kKernelSetRef);
  REQUIRE(are_same(one.run(kKernelSetRef, &none).data(), without.data(), without.size()));
}

TEST_CASE("merging and finishing have the reference's bits for every width") {
  std::mt19937 random(44);
  for (size_t width = 1; width <= 70; ++width) {
    GuardedArray<float> out(width), next(width), numbers(2), next_numbers(2);
    fill_normal(out, random);
    fill_normal(next, random);
    const std::vector<float> start(out.begin(), out.end());
    for (const float shift : {0.0f, 1.5f, -200.0f, kInfinity, NAN}) {
      const float sink = 0.7f;
      std::vector<std::vector<float>> results;
      for (const KernelRow &row : runnable_rows()) {
        std::copy(start.begin(), start.end(), out.begin());
        numbers[0] = 0.4f;
        numbers[1] = 3.0f;
        next_numbers[0] = 0.4f + shift;
        next_numbers[1] = 2.0f;
        row.set->attention_merge(numbers.data(), out.data(), next_numbers.data(), next.data(),
                                 width);
        row.set->attention_finish(numbers.data(), &sink, out.data(), width);
        results.emplace_back(out.begin(), out.end());
        results.back().insert(results.back().end(), numbers.begin(), numbers.end());
        REQUIRE(are_same(results[0].data(), results.back().data(), width + 2));
      }
    }
  }
}

TEST_CASE("the reference's attention agrees with double precision") {
  for (const KvType type : kTypes) {
    for (const Seen seen : {Seen{0, 1}, Seen{0, 64}, Seen{3, 65}, Seen{100, 1200}}) {
      Shape shape;
      shape.type = type;
      shape.seen = {{0, 40}, seen};
      shape.has_positions = true;
      Case one(shape, 45);
      const float sink = 1.0f;
      const std::vector<float> got = one.run(kKernelSetRef, &sink);
      double sum = std::exp(static_cast<double>(sink));
      std::vector<double> expected(20);
      for (size_t number = seen.first; number < seen.end; ++number) {
        double score = 0.0;
        for (size_t d = 0; d < 24; ++d) {
          score += static_cast<double>(one.queries[24 + d]) *
                   static_cast<double>(one.keys.get(one.place_of(number), d));
        }
        const double p = std::exp(score * static_cast<double>(one.scale));
        sum += p;
        for (size_t c = 0; c < 20; ++c) {
          expected[c] += p * static_cast<double>(one.values.get(one.place_of(number), c));
        }
      }
      for (size_t c = 0; c < 20; ++c) {
        REQUIRE(got[20 + c] == Approx(expected[c] / sum).epsilon(1e-4).margin(2e-6));
      }
    }
  }
}

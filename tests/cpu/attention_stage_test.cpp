// SPDX-License-Identifier: Apache-2.0
//
// Attention of a batch on threads: every cut into bundles, spans and rounds gives the bits of rows
// that are computed one by one.

#include "cpu/attention_stage.h"

#include <algorithm>
#include <cmath>

#include "lib/base/number_formats.h"
#include "lib/base/parallel.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;
using colibri::cpu::AttentionCut;
using colibri::cpu::choose_attention_cut;
using colibri::cpu::CpuScratch;
using colibri::cpu::kKernelSetRef;
using colibri::cpu::run_attention;
using colibri::cpu::TaskRunner;

namespace {

// [first_key, end) of a slot that one row sees.
struct RowShape {
  size_t slot;
  uint32_t first_key, end;
  bool has_positions = false;
};

struct Shape {
  std::vector<RowShape> rows;
  uint32_t n_heads = 8;
  uint32_t n_kv_heads = 2;
  uint32_t key_width = 24;
  uint32_t value_width = 20;
  uint32_t places = 0;
  uint32_t ring = 0;
  KvType type = KvType::kF32;
  bool has_sinks = false;
};

// Slots of head-major keys, then values, as a layer lays them out.
struct Case {
  Case(const Shape &case_shape, uint32_t seed)
      : shape(case_shape), random(seed), queries(query_floats()), sinks(shape.n_heads) {
    fill_normal(queries, random);
    fill_normal(sinks, random);
    size_t n_slots = 0;
    for (const RowShape &row : shape.rows) n_slots = std::max(n_slots, row.slot + 1);
    slots.resize(n_slots * slot_bytes());
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < slots.size() / kv_type_bytes(shape.type); ++i) {
      store(i, normal(random));
    }
    for (const RowShape &row : shape.rows) {
      std::vector<int32_t> list;
      for (uint32_t i = 0; row.has_positions && i < row.end; ++i) {
        list.push_back(static_cast<int32_t>(2 * i + i % 2));
      }
      positions.push_back(list);
    }
    for (size_t i = 0; i < shape.rows.size(); ++i) {
      const RowShape &row = shape.rows[i];
      const uint8_t *slot = slots.data() + row.slot * slot_bytes();
      const size_t key_bytes =
          size_t{shape.n_kv_heads} * shape.places * shape.key_width * kv_type_bytes(shape.type);
      rows.push_back({slot, slot + key_bytes, row.has_positions ? positions[i].data() : nullptr,
                      row.first_key, row.end - row.first_key});
    }
  }

  size_t query_floats() const { return shape.rows.size() * shape.n_heads * shape.key_width; }
  size_t row_floats() const { return size_t{shape.n_heads} * shape.value_width; }
  size_t slot_bytes() const {
    return size_t{shape.n_kv_heads} * shape.places * (shape.key_width + shape.value_width) *
           kv_type_bytes(shape.type);
  }
  void store(size_t i, float value) {
    if (shape.type == KvType::kF32) {
      reinterpret_cast<float *>(slots.data())[i] = value;
    } else {
      reinterpret_cast<uint16_t *>(slots.data())[i] =
          shape.type == KvType::kBF16 ? float_to_bf16(value) : float_to_f16(value);
    }
  }

  AttentionArgs args(size_t first, size_t n, float *out) const {
    AttentionArgs args;
    args.rows = std::span(rows).subspan(first, n);
    args.queries = queries.data() + first * shape.n_heads * shape.key_width;
    args.query_row_stride = size_t{shape.n_heads} * shape.key_width;
    args.query_head_stride = shape.key_width;
    args.kv_type = shape.type;
    args.key_stride = shape.key_width;
    args.value_stride = shape.value_width;
    args.key_head_stride = size_t{shape.places} * shape.key_width;
    args.value_head_stride = size_t{shape.places} * shape.value_width;
    args.ring = shape.ring;
    args.n_heads = shape.n_heads;
    args.n_kv_heads = shape.n_kv_heads;
    args.key_width = shape.key_width;
    args.value_width = shape.value_width;
    args.scale = 0.25f;
    args.sinks = shape.has_sinks ? sinks.data() : nullptr;
    args.out = out;
    args.out_row_stride = row_floats();
    args.out_head_stride = shape.value_width;
    return args;
  }
  ScratchShape scratch_shape() const {
    ScratchShape scratch;
    scratch.max_rows = static_cast<uint32_t>(shape.rows.size());
    scratch.n_heads = shape.n_heads;
    scratch.key_width = shape.key_width;
    scratch.value_width = shape.value_width;
    scratch.expert_width = 16;
    scratch.n_experts_per_token = 1;
    scratch.n_experts = 1;
    return scratch;
  }

  // Rows one by one, each bundle whole.
  std::vector<float> run_alone(const KernelSet &set) const {
    std::vector<float> out(rows.size() * row_floats());
    ThreadPool threads(1);
    CpuScratch scratch(scratch_shape(), 1);
    for (size_t r = 0; r < rows.size(); ++r) {
      run_attention(set, TaskRunner(threads), args(r, 1, &out[r * row_floats()]), AttentionCut{},
                    scratch);
    }
    return out;
  }

  Shape shape;
  std::mt19937 random;
  GuardedArray<float> queries, sinks;
  std::vector<uint8_t> slots;
  std::vector<std::vector<int32_t>> positions;
  std::vector<AttentionRow> rows;
};

// All kernel sets, numbers of threads, and forced cuts.
void compare_cuts(const Shape &shape, uint32_t seed) {
  const Case one(shape, seed);
  const std::vector<float> expected = one.run_alone(kKernelSetRef);
  for (const uint32_t n_threads : {1u, 2u, 5u, 16u}) {
    ThreadPool threads(n_threads);
    const TaskRunner runner(threads);
    CpuScratch scratch(one.scratch_shape(), n_threads);
    const AttentionArgs all = one.args(0, one.rows.size(), nullptr);
    std::vector<AttentionCut> cuts = {
        choose_attention_cut(all, runner, scratch.partial_capacity())};
    for (const size_t most_queries : {1u, 3u, 8u, 32u, 128u}) {
      cuts.push_back({most_queries, false, 0});
      if (n_threads == 1) continue;  // no room for partial results
      for (const size_t round_partials : {size_t{1}, size_t{40}, scratch.partial_capacity()}) {
        cuts.push_back({most_queries, true, std::min(round_partials, scratch.partial_capacity())});
      }
    }
    for (const KernelRow &row : runnable_rows()) {
      for (const AttentionCut &cut : cuts) {
        if (row.set == &kKernelSetRef && &cut != &cuts[0] && cut.most_queries != 3) continue;
        CAPTURE(row.name, n_threads, cut.most_queries, cut.cuts_spans, cut.round_partials);
        GuardedArray<float> out(expected.size());
        run_attention(*row.set, runner, one.args(0, one.rows.size(), out.data()), cut, scratch);
        REQUIRE(are_same(out.data(), expected.data(), expected.size()));
        REQUIRE(out.front_is_intact());
      }
    }
  }
}

// A prompt chunk and rows of other slots beside it.
std::vector<RowShape> mixed_rows(uint32_t first_position, uint32_t n_rows, uint32_t window) {
  std::vector<RowShape> rows;
  const auto add = [&](size_t slot, uint32_t end) {
    rows.push_back({slot, end > window ? end - window : 0, end});
  };
  add(1, 700);
  for (uint32_t i = 0; i < n_rows; ++i) add(0, first_position + i + 1);
  add(2, 513);
  add(1, 30);
  return rows;
}

}  // namespace

TEST_CASE("attention of grouped heads has the same bits however it is cut") {
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kF16}) {
    Shape shape;
    shape.rows = mixed_rows(500, 20, 1u << 30);
    shape.places = 1100;
    shape.type = type;
    shape.has_sinks = type == KvType::kF16;
    compare_cuts(shape, 51);
  }
}

TEST_CASE("attention of latents has the same bits however it is cut") {
  Shape shape;
  shape.rows = {{0, 0, 300, true}, {0, 0, 520, true}, {1, 0, 1300}, {2, 0, 1}, {2, 0, 2}};
  shape.n_heads = 20;
  shape.n_kv_heads = 1;
  shape.places = 1300;
  compare_cuts(shape, 52);
}

TEST_CASE("attention over rings has the same bits however it is cut") {
  for (const uint32_t window : {12u, 64u, 120u}) {
    Shape shape;
    shape.rows = mixed_rows(1020, 20, window);
    shape.n_kv_heads = 8;
    shape.places = shape.ring = 192;
    shape.has_sinks = true;
    compare_cuts(shape, 53);
  }
}

TEST_CASE("attention of many heads of one group has the same bits however it is cut") {
  Shape shape;
  shape.rows = {{0, 0, 600}};
  shape.n_heads = 150;
  shape.n_kv_heads = 1;
  shape.places = 600;
  shape.key_width = 16;
  shape.value_width = 8;
  compare_cuts(shape, 54);
}

TEST_CASE("attention agrees with double precision through heads, ring and sinks") {
  Shape shape;
  shape.rows = {{0, 400, 520}, {0, 401, 521}};
  shape.places = shape.ring = 128;
  shape.has_sinks = true;
  const Case one(shape, 55);
  const std::vector<float> got = one.run_alone(kKernelSetRef);
  const float *keys = reinterpret_cast<const float *>(one.slots.data());
  const float *values = keys + 2 * 128 * 24;
  for (size_t r = 0; r < 2; ++r) {
    for (size_t h = 0; h < 8; ++h) {
      double sum = std::exp(static_cast<double>(one.sinks[h]));
      std::vector<double> expected(20);
      for (size_t p = one.shape.rows[r].first_key; p < one.shape.rows[r].end; ++p) {
        const size_t place = h / 4 * 128 + p % 128;
        double score = 0.0;
        for (size_t d = 0; d < 24; ++d) {
          score += static_cast<double>(one.queries[(r * 8 + h) * 24 + d]) *
                   static_cast<double>(keys[place * 24 + d]);
        }
        const double weight = std::exp(0.25 * score);
        sum += weight;
        for (size_t c = 0; c < 20; ++c) {
          expected[c] += weight * static_cast<double>(values[place * 20 + c]);
        }
      }
      for (size_t c = 0; c < 20; ++c) {
        REQUIRE(got[(r * 8 + h) * 20 + c] == Approx(expected[c] / sum).epsilon(1e-4).margin(2e-6));
      }
    }
  }
}

TEST_CASE("attention is cut into spans only if there are too few bundles for all threads") {
  Shape shape;
  shape.rows = {{0, 0, 8192}};
  shape.n_heads = 16;
  shape.n_kv_heads = 1;
  shape.places = 8192;
  const Case one(shape, 56);
  ThreadPool threads(8);
  const TaskRunner runner(threads);
  const AttentionCut decode = choose_attention_cut(one.args(0, 1, nullptr), runner, 4096);
  REQUIRE(decode.cuts_spans);
  REQUIRE(decode.most_queries == 128);  // keys are read once for all heads
  AttentionArgs prompt = one.args(0, 1, nullptr);
  std::vector<AttentionRow> rows(128, one.rows[0]);
  prompt.rows = rows;
  REQUIRE_FALSE(choose_attention_cut(prompt, runner, 4096).cuts_spans);
  rows.resize(1);
  rows[0].n_keys = 500;
  prompt.rows = rows;
  const AttentionCut brief = choose_attention_cut(prompt, runner, 4096);
  REQUIRE_FALSE(brief.cuts_spans);
  REQUIRE(brief.most_queries == 8);
}

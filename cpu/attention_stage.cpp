// SPDX-License-Identifier: Apache-2.0
//
// Bundles, spans and rounds. A round is two parallel regions: the spans of some bundles into
// partial results, then the merging of these by (row, head), each in one task.

#include "cpu/attention_stage.h"

#include <algorithm>

namespace colibri::cpu {
namespace {

// An exponential in multiply-adds.
constexpr uint64_t kExpWork = 12;
// Bundles are not made smaller than that: in order to avoid spans, and where there are none.
constexpr size_t kLeastWholeQueries = 32;
constexpr size_t kLeastQueries = 8;
// Query vectors that one task merges.
constexpr size_t kMergedQueries = 8;

// The heads of a group in equal pieces of at most most_queries, and rows to fill a bundle.
struct BundleShape {
  size_t group, heads, n_pieces, rows;
  size_t queries() const { return heads * rows; }
};
BundleShape bundle_shape(const AttentionArgs &args, size_t most_queries) {
  BundleShape shape;
  shape.group = args.n_heads / args.n_kv_heads;
  const size_t n = (shape.group + most_queries - 1) / most_queries;
  shape.heads = (shape.group + n - 1) / n;
  shape.n_pieces = (shape.group + shape.heads - 1) / shape.heads;
  shape.rows = std::max<size_t>(1, most_queries / shape.heads);
  return shape;
}

uint32_t end_of(const AttentionRow &row) {
  return row.positions != nullptr ? row.n_keys : row.first_key + row.n_keys;
}
uint32_t first_of(const AttentionRow &row) {
  return row.positions != nullptr ? 0 : row.first_key;
}

bool can_join(const AttentionRow &a, const AttentionRow &b) {
  return a.keys == b.keys && a.values == b.values && a.positions == nullptr &&
         b.positions == nullptr;
}

// visit(AttentionRows) for every run of rows that attend together.
template <typename Visit>
void for_each_rows(const AttentionArgs &args, size_t most_rows, Visit visit) {
  const size_t n = args.rows.size();
  for (size_t first = 0; first < n;) {
    uint32_t least = first_of(args.rows[first]);
    uint32_t largest = end_of(args.rows[first]);
    size_t end = first + 1;
    while (end < n && end - first < most_rows && can_join(args.rows[first], args.rows[end])) {
      least = std::min(least, first_of(args.rows[end]));
      largest = std::max(largest, end_of(args.rows[end]));
      ++end;
    }
    visit(AttentionRows{static_cast<uint32_t>(first), static_cast<uint32_t>(end - first),
                        static_cast<uint32_t>(least / kAttentionSpan),
                        static_cast<uint32_t>((largest - 1) / kAttentionSpan + 1)});
    first = end;
  }
}

struct Counts {
  size_t n_bundles = 0, n_spans = 0;
};
Counts count_tasks(const AttentionArgs &args, size_t most_queries) {
  const BundleShape shape = bundle_shape(args, most_queries);
  Counts counts;
  for_each_rows(args, shape.rows, [&](const AttentionRows &rows) {
    ++counts.n_bundles;
    counts.n_spans += rows.end_span - rows.first_span;
  });
  const size_t n_pieces = args.n_kv_heads * shape.n_pieces;
  return {counts.n_bundles * n_pieces, counts.n_spans * n_pieces};
}

uint64_t attention_work(const AttentionArgs &args) {
  uint64_t n_keys = 0;
  for (const AttentionRow &row : args.rows) n_keys += row.n_keys;
  return n_keys * args.n_heads * (uint64_t{args.key_width} + args.value_width + kExpWork);
}

// One run of (args, cut): what all tasks look at.
struct Stage {
  const KernelSet &kernels;
  const AttentionArgs &args;
  CpuScratch &scratch;
  BundleShape shape;
  const AttentionRows *rows;
  size_t n_rows;

  size_t n_pieces() const { return args.n_kv_heads * shape.n_pieces; }
};

// Query vectors of some rows and of some heads of one group.
struct Bundle {
  AttentionRows rows;
  size_t kv_head, first_head, n_heads;
  size_t n_queries() const { return rows.n_rows * n_heads; }
};
Bundle make_bundle(const Stage &stage, const AttentionRows &rows, size_t piece) {
  Bundle bundle;
  bundle.rows = rows;
  bundle.kv_head = piece / stage.shape.n_pieces;
  const size_t first = piece % stage.shape.n_pieces * stage.shape.heads;
  bundle.first_head = bundle.kv_head * stage.shape.group + first;
  bundle.n_heads = std::min(stage.shape.heads, stage.shape.group - first);
  return bundle;
}

// Query vector i of a bundle. Its numbers are [first, end).
struct QueryPlace {
  size_t row, head;
  uint32_t first, end;

  bool sees(size_t span) const {
    return first < (span + 1) * kAttentionSpan && end > span * kAttentionSpan;
  }
  bool begins_in(size_t span) const { return first / kAttentionSpan == span; }
  bool ends_in(size_t span) const { return (end - 1) / kAttentionSpan == span; }
};
QueryPlace query_place(const Stage &stage, const Bundle &bundle, size_t i) {
  QueryPlace place;
  place.row = bundle.rows.first_row + i / bundle.n_heads;
  place.head = bundle.first_head + i % bundle.n_heads;
  place.first = first_of(stage.args.rows[place.row]);
  place.end = end_of(stage.args.rows[place.row]);
  return place;
}

float *out_of(const Stage &stage, const QueryPlace &place) {
  const AttentionArgs &args = stage.args;
  return args.out + place.row * args.out_row_stride + place.head * args.out_head_stride;
}
float *numbers_of(const Stage &stage, const QueryPlace &place) {
  return stage.scratch.attention_numbers() + 2 * (place.row * stage.args.n_heads + place.head);
}

const void *of_head(const void *rows, size_t kv_head, size_t head_stride, KvType type) {
  return static_cast<const uint8_t *>(rows) + kv_head * head_stride * kv_type_bytes(type);
}

// One span of a bundle. Results of query i go to partials[i] (value_width, m, l), or, with
// begins_in_place, to `out` if the span is the first that the query sees.
void attend_span(const Stage &stage, const Bundle &bundle, size_t span, bool begins_in_place,
                 float *partials, float *scratch) {
  const AttentionArgs &args = stage.args;
  const size_t partial_floats = size_t{args.value_width} + 2;
  AttentionQuery queries[kMaxAttentionQueries];
  for (size_t i = 0; i < bundle.n_queries(); ++i) {
    const QueryPlace place = query_place(stage, bundle, i);
    AttentionQuery &query = queries[i];
    query.query =
        args.queries + place.row * args.query_row_stride + place.head * args.query_head_stride;
    query.first = place.first;
    query.end = place.end;
    query.out = partials + i * partial_floats;
    query.numbers = query.out + args.value_width;
    if (begins_in_place && place.begins_in(span)) {
      query.out = out_of(stage, place);
      query.numbers = numbers_of(stage, place);
    }
  }
  const AttentionRow &row = args.rows[bundle.rows.first_row];
  AttentionSpanArgs span_args = {};
  span_args.queries = queries;
  span_args.n_queries = bundle.n_queries();
  span_args.first_number = span * kAttentionSpan;
  span_args.keys = of_head(row.keys, bundle.kv_head, args.key_head_stride, args.kv_type);
  span_args.key_stride = args.key_stride;
  span_args.values = of_head(row.values, bundle.kv_head, args.value_head_stride, args.kv_type);
  span_args.value_stride = args.value_stride;
  span_args.positions = row.positions;
  span_args.ring = args.ring;
  span_args.key_width = args.key_width;
  span_args.value_width = args.value_width;
  span_args.scale = args.scale;
  span_args.scratch = scratch;
  stage.kernels.attention_span[static_cast<size_t>(args.kv_type)](span_args);
}

void merge(const Stage &stage, const QueryPlace &place, const float *partial) {
  stage.kernels.attention_merge(numbers_of(stage, place), out_of(stage, place),
                                partial + stage.args.value_width, partial, stage.args.value_width);
}

void finish(const Stage &stage, const QueryPlace &place) {
  const float *sinks = stage.args.sinks;
  stage.kernels.attention_finish(numbers_of(stage, place),
                                 sinks != nullptr ? sinks + place.head : nullptr,
                                 out_of(stage, place), stage.args.value_width);
}

// All spans of a bundle, one after the other.
void attend_bundle(const Stage &stage, const Bundle &bundle, float *worker_floats) {
  const AttentionArgs &args = stage.args;
  const size_t n = bundle.n_queries();
  const size_t partial_floats = size_t{args.value_width} + 2;
  float *partials = worker_floats + attention_scratch_floats(args.key_width, args.value_width, n);
  for (size_t span = bundle.rows.first_span; span < bundle.rows.end_span; ++span) {
    attend_span(stage, bundle, span, true, partials, worker_floats);
    for (size_t i = 0; i < n; ++i) {
      const QueryPlace place = query_place(stage, bundle, i);
      if (!place.sees(span)) continue;
      if (!place.begins_in(span)) merge(stage, place, partials + i * partial_floats);
      if (place.ends_in(span)) finish(stage, place);
    }
  }
}

// Spans are counted through all bundles: rows, pieces of heads, spans.
struct SpanPlace {
  Bundle bundle;
  size_t span;
  size_t bundle_first;  // index of the bundle's first span
  size_t bundle_end;
};
SpanPlace find_span(const Stage &stage, size_t index) {
  size_t first = 0;
  for (size_t i = 0; i < stage.n_rows; ++i) {
    const size_t n_spans = stage.rows[i].end_span - stage.rows[i].first_span;
    const size_t n = n_spans * stage.n_pieces();
    if (index < first + n) {
      const size_t piece = (index - first) / n_spans;
      const size_t bundle_first = first + piece * n_spans;
      return {make_bundle(stage, stage.rows[i], piece),
              stage.rows[i].first_span + (index - bundle_first), bundle_first,
              bundle_first + n_spans};
    }
    first += n;
  }
  return {};
}

// Spans first .. end - 1 have their results behind each other in the partials; this joins those of
// query vectors of one bundle to what earlier rounds left. `at` is a span of the bundle.
void merge_round(const Stage &stage, const SpanPlace &at, size_t first, size_t end,
                 size_t first_query) {
  const size_t partial_floats = size_t{stage.args.value_width} + 2;
  const size_t slot_floats = stage.shape.queries() * partial_floats;
  const size_t last_query = std::min(at.bundle.n_queries(), first_query + kMergedQueries);
  const size_t from = std::max(first, at.bundle_first);
  const size_t to = std::min(end, at.bundle_end);
  for (size_t i = first_query; i < last_query; ++i) {
    const QueryPlace place = query_place(stage, at.bundle, i);
    for (size_t index = from; index < to; ++index) {
      const size_t span = at.bundle.rows.first_span + (index - at.bundle_first);
      if (!place.sees(span)) continue;
      const float *partial =
          stage.scratch.attention_partials() + (index - first) * slot_floats + i * partial_floats;
      if (place.begins_in(span)) {
        std::copy_n(partial, stage.args.value_width, out_of(stage, place));
        std::copy_n(partial + stage.args.value_width, 2, numbers_of(stage, place));
      } else {
        merge(stage, place, partial);
      }
      if (place.ends_in(span)) finish(stage, place);
    }
  }
}

void run_rounds(const Stage &stage, const TaskRunner &runner, const AttentionCut &cut,
                size_t n_spans, uint64_t work) {
  const size_t queries = stage.shape.queries();
  const size_t slot_floats = queries * (size_t{stage.args.value_width} + 2);
  const size_t round_spans = std::max<size_t>(1, cut.round_partials / queries);
  const size_t n_parts = (queries + kMergedQueries - 1) / kMergedQueries;
  for (size_t first = 0; first < n_spans; first += round_spans) {
    const size_t end = std::min(n_spans, first + round_spans);
    runner.run(end - first, work * (end - first) / n_spans, [&](size_t task, uint32_t worker) {
      const SpanPlace at = find_span(stage, first + task);
      attend_span(stage, at.bundle, at.span, false,
                  stage.scratch.attention_partials() + task * slot_floats,
                  stage.scratch.worker_floats(worker));
    });
    // A task for each span of the round, of which the first one of a bundle does the merging.
    const uint64_t merge_work = 2 * (end - first) * slot_floats;
    runner.run((end - first) * n_parts, merge_work, [&](size_t task, uint32_t) {
      const size_t index = first + task / n_parts;
      const SpanPlace at = find_span(stage, index);
      if (index != std::max(first, at.bundle_first)) return;
      merge_round(stage, at, first, end, task % n_parts * kMergedQueries);
    });
  }
}

}  // namespace

AttentionCut choose_attention_cut(const AttentionArgs &args, const TaskRunner &runner,
                                  size_t partial_capacity) noexcept {
  AttentionCut cut;
  cut.round_partials = partial_capacity;
  if (args.rows.empty() || args.n_heads == 0 || runner.is_inline(attention_work(args))) return cut;
  const size_t wanted = 2 * static_cast<size_t>(runner.n_threads());
  for (size_t n = kMaxAttentionQueries; n >= kLeastWholeQueries; n /= 2) {
    cut.most_queries = n;
    if (count_tasks(args, n).n_bundles >= wanted) return cut;
  }
  for (size_t n = kMaxAttentionQueries; n >= kLeastQueries; n /= 2) {
    const Counts counts = count_tasks(args, n);
    cut.most_queries = n;
    cut.cuts_spans = counts.n_spans > counts.n_bundles;
    if (counts.n_spans >= wanted) return cut;
  }
  return cut;
}

void run_attention(const KernelSet &kernels, const TaskRunner &runner, const AttentionArgs &args,
                   const AttentionCut &cut, CpuScratch &scratch) noexcept {
  if (args.rows.empty() || args.n_heads == 0) return;
  Stage stage = {
      kernels, args, scratch, bundle_shape(args, cut.most_queries), scratch.attention_rows(), 0};
  size_t n_spans = 0;
  for_each_rows(args, stage.shape.rows, [&](const AttentionRows &rows) {
    scratch.attention_rows()[stage.n_rows++] = rows;
    n_spans += (rows.end_span - rows.first_span) * stage.n_pieces();
  });
  const uint64_t work = attention_work(args);
  if (cut.cuts_spans) return run_rounds(stage, runner, cut, n_spans, work);
  runner.run(stage.n_rows * stage.n_pieces(), work, [&](size_t task, uint32_t worker) {
    const AttentionRows &rows = stage.rows[task / stage.n_pieces()];
    attend_bundle(stage, make_bundle(stage, rows, task % stage.n_pieces()),
                  scratch.worker_floats(worker));
  });
}

}  // namespace colibri::cpu

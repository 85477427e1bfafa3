// SPDX-License-Identifier: Apache-2.0
//
// What the attention kernels of AVX2 and of the sets above it share: which numbers of a block each
// query sees, where the rows of those numbers lie, and how the scratch is divided. No intrinsic is
// in here; kLanes, the floats of a vector, is what differs. For attention_span_<isa>.cpp alone:
// everything is in an unnamed namespace, so that what is compiled with a set's flags stays with it.

#pragma once

#include "cpu/kernels.h"

#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

template <size_t kLanes>
inline size_t pad(size_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

// Parts of the scratch.
struct Scratch {
  float *queries;  // [group][key_width][kLanes]
  float *weights;  // [group][kAttentionBlock][kLanes]
  float *rows;     // [kAttentionBlock][row_stride]
  size_t row_stride;
  float *m, *l;                  // [query]
  float *block_max, *block_sum;  // [query]; they become the factors b and a of the merge
};

// What a query does with a block.
enum Use : int32_t { kSkips = 0, kBegins = 1, kMerges = 2 };

// One block. Numbers count from its first one.
template <size_t kLanes>
struct BlockOf {
  static constexpr size_t kMaxGroups = kMaxAttentionQueries / kLanes;
  size_t low, high;                      // seen by any query: [low, high)
  const float *keys[kAttentionBlock];    // those outside repeat the nearest one
  const float *values[kAttentionBlock];  // valid inside
  // Per query, padded.
  alignas(64) int32_t lows[kMaxAttentionQueries];
  alignas(64) int32_t highs[kMaxAttentionQueries];
  alignas(64) int32_t uses[kMaxAttentionQueries];
  // Per group: [low, high) of any query that does not skip, and whether all see the whole block.
  size_t group_lows[kMaxGroups], group_highs[kMaxGroups];
  bool is_whole[kMaxGroups];
  uint32_t active[kMaxAttentionQueries];  // queries that do not skip, ascending
  size_t n_active;
};

inline size_t place_of(const AttentionSpanArgs &args, size_t number) {
  const size_t place =
      args.positions != nullptr ? static_cast<size_t>(args.positions[number]) : number;
  return args.ring != 0 ? place % args.ring : place;
}

// The block of which every query sees every number.
template <size_t kLanes>
inline void find_whole(const AttentionSpanArgs &args, bool *has_begun, BlockOf<kLanes> *block) {
  const size_t padded = pad<kLanes>(args.n_queries);
  for (size_t i = 0; i < padded; ++i) {
    block->lows[i] = 0;
    block->highs[i] = static_cast<int32_t>(kAttentionBlock);
    block->uses[i] = kSkips;
  }
  for (size_t i = 0; i < args.n_queries; ++i) {
    block->uses[i] = has_begun[i] ? kMerges : kBegins;
    block->active[i] = static_cast<uint32_t>(i);
    has_begun[i] = true;
  }
  for (size_t group = 0; group < padded / kLanes; ++group) {
    block->group_lows[group] = 0;
    block->group_highs[group] = kAttentionBlock;
    block->is_whole[group] = true;
  }
  block->n_active = args.n_queries;
  block->low = 0;
  block->high = kAttentionBlock;
}

// Who sees what of the block that begins with number `first`. Gives whether anyone sees anything.
template <size_t kLanes>
inline bool find_ranges(const AttentionSpanArgs &args, size_t first, bool sees_whole,
                        bool *has_begun, BlockOf<kLanes> *block) {
  block->low = kAttentionBlock;
  block->high = 0;
  block->n_active = 0;
  const size_t n_groups = pad<kLanes>(args.n_queries) / kLanes;
  if (sees_whole) {
    find_whole(args, has_begun, block);
    return true;
  }
  for (size_t group = 0; group < n_groups; ++group) {
    size_t group_low = kAttentionBlock;
    size_t group_high = 0;
    bool is_whole = true;
    for (size_t i = group * kLanes; i < (group + 1) * kLanes; ++i) {
      const size_t q = i < args.n_queries ? i : args.n_queries - 1;
      const size_t query_first = args.queries[q].first;
      const size_t query_end = args.queries[q].end;
      size_t low = query_first > first ? query_first - first : 0;
      size_t high = query_end > first ? query_end - first : 0;
      low = low < kAttentionBlock ? low : kAttentionBlock;
      high = high < kAttentionBlock ? high : kAttentionBlock;
      block->lows[i] = static_cast<int32_t>(low);
      block->highs[i] = static_cast<int32_t>(high);
      block->uses[i] = kSkips;
      is_whole = is_whole && low == 0 && high == kAttentionBlock;
      if (i >= args.n_queries || low >= high) continue;
      block->uses[i] = has_begun[i] ? kMerges : kBegins;
      has_begun[i] = true;
      block->active[block->n_active++] = static_cast<uint32_t>(i);
      group_low = low < group_low ? low : group_low;
      group_high = high > group_high ? high : group_high;
    }
    block->group_lows[group] = group_low;
    block->group_highs[group] = group_high;
    block->is_whole[group] = is_whole;
    block->low = group_low < block->low ? group_low : block->low;
    block->high = group_high > block->high ? group_high : block->high;
  }
  return block->n_active != 0;
}

// Rows of the numbers that are seen, as floats: widen(row, width, to) makes floats of a row of a
// Format that has others.
template <typename Format, typename Widen, size_t kLanes>
inline void find_rows(const AttentionSpanArgs &args, size_t first, const void *stored,
                      size_t stride, size_t width, const BlockOf<kLanes> &block,
                      const Scratch &scratch, Widen widen, const float **rows) {
  const auto *base = static_cast<const typename Format::Stored *>(stored);
  size_t place = place_of(args, first + block.low);
  for (size_t k = block.low; k < block.high; ++k) {
    if (args.positions != nullptr) place = place_of(args, first + k);
    const auto *row = base + place * stride;
    place = place + 1 == args.ring ? 0 : place + 1;
    if constexpr (Format::is_wide) {
      rows[k] = row;
    } else {
      float *to = scratch.rows + k * scratch.row_stride;
      widen(row, width, to);
      rows[k] = to;
    }
  }
  for (size_t k = 0; k < block.low; ++k) rows[k] = rows[block.low];
  for (size_t k = block.high; k < kAttentionBlock; ++k) rows[k] = rows[block.high - 1];
}

template <size_t kLanes>
inline Scratch divide_scratch(const AttentionSpanArgs &args) {
  const size_t n = pad<kLanes>(args.n_queries);
  const size_t width = args.key_width > args.value_width ? args.key_width : args.value_width;
  Scratch scratch;
  scratch.queries = args.scratch;
  scratch.weights = scratch.queries + n * args.key_width;
  scratch.rows = scratch.weights + n * kAttentionBlock;
  scratch.row_stride = pad<kLanes>(width);
  scratch.m = scratch.rows + kAttentionBlock * scratch.row_stride;
  scratch.l = scratch.m + n;
  scratch.block_max = scratch.l + n;
  scratch.block_sum = scratch.block_max + n;
  for (size_t i = 0; i < n; ++i) scratch.m[i] = scratch.l[i] = 0.0f;
  return scratch;
}

}  // namespace
}  // namespace colibri::cpu

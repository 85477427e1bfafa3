// SPDX-License-Identifier: Apache-2.0
//
// Attention of a batch on threads: which query vectors share a reading of keys, and which spans of
// a long row are computed side by side. Both are matters of speed alone: every span of every (row,
// head) is computed for itself and spans are merged in ascending order (kernels.h), so no cut shows
// in a result.

#pragma once

#include "cpu/cpu_scratch.h"
#include "cpu/kernels.h"
#include "cpu/task_runner.h"
#include "lib/backend/op_args.h"

namespace colibri::cpu {

// How an attention becomes tasks. A bundle is up to most_queries query vectors of one key/value
// head: heads of the group, taken from consecutive rows with the same keys and values; a row with a
// list of positions stands alone.
struct AttentionCut {
  size_t most_queries = kMaxAttentionQueries;  // 1 .. kMaxAttentionQueries
  // false: a bundle walks its spans by itself. true: each span of a bundle is a task, in rounds
  // whose results fit round_partials query vectors, at least one bundle.
  bool cuts_spans = false;
  size_t round_partials = 0;
};

// Whole bundles if there are enough for all threads, perhaps smaller ones. Else spans, which cost
// next to nothing, since their keys are still read once for all heads; and smaller bundles only if
// the rows are too short for that.
AttentionCut choose_attention_cut(const AttentionArgs &args, const TaskRunner &runner,
                                  size_t partial_capacity) noexcept;

// Allocates nothing.
void run_attention(const KernelSet &kernels, const TaskRunner &runner, const AttentionArgs &args,
                   const AttentionCut &cut, CpuScratch &scratch) noexcept;

}  // namespace colibri::cpu

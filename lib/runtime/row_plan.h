// SPDX-License-Identifier: Apache-2.0
//
// Which rows one step computes: pure arithmetic over what each request could use. Decode rows come
// first; when they exceed the limits, requests take turns. Then prompts, in order of admission.

#pragma once

#include <cstdint>
#include <span>

namespace colibri {

struct RowLimits {
  uint32_t row_budget = 0;     // rows of a step
  uint32_t prefill_chunk = 0;  // prompt rows of one request
  uint32_t decode_reserve =
      0;  // of the budget, not for prompt rows in a step with decode rows; < row_budget
  uint32_t max_logits_rows = 0;  // a decode row and the last row of a prompt take one each
};

// One request, in order of admission.
struct RowDemand {
  uint64_t serial = 0;         // number of its admission; ascending
  bool is_decoding = false;    // could use one decode row
  uint32_t n_prompt_left = 0;  // could use so many prompt rows; not with is_decoding
  uint32_t n_rows =
      0;  // [out] granted; with all of n_prompt_left granted the last one gives logits
};

struct RowTotals {
  uint32_t n_decode_rows = 0;
  uint32_t n_prefill_rows = 0;
};

// Fills n_rows of every demand. *turn is the serial of the decoding request served last, kept from
// step to step: with n decoding requests and room for k, each is served once in every n/k steps,
// rounded up.
RowTotals plan_rows(const RowLimits &limits, std::span<RowDemand> demands, uint64_t *turn) noexcept;

}  // namespace colibri

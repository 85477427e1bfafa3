// SPDX-License-Identifier: Apache-2.0
//
// A prompt cannot be starved for good by decode rows: only requests whose prompt is done decode,
// and each of them ends. A prompt that lacks only a row of logits goes on up to its last token and
// waits there.

#include "lib/runtime/row_plan.h"

#include <algorithm>

namespace colibri {
namespace {

// Grants decode rows to requests with first < serial <= last until `room` is used up.
uint32_t serve_decoders(std::span<RowDemand> demands, uint64_t first, uint64_t last, uint32_t room,
                        uint64_t *turn) noexcept {
  uint32_t n_served = 0;
  for (RowDemand &demand : demands) {
    if (n_served == room) break;
    if (!demand.is_decoding || demand.serial <= first || demand.serial > last) continue;
    demand.n_rows = 1;
    ++n_served;
    *turn = demand.serial;
  }
  return n_served;
}

}  // namespace

RowTotals plan_rows(const RowLimits &limits, std::span<RowDemand> demands,
                    uint64_t *turn) noexcept {
  for (RowDemand &demand : demands) demand.n_rows = 0;
  RowTotals totals;
  const uint32_t room = std::min(limits.row_budget, limits.max_logits_rows);
  const uint64_t served_last = *turn;
  totals.n_decode_rows = serve_decoders(demands, served_last, UINT64_MAX, room, turn);
  totals.n_decode_rows +=
      serve_decoders(demands, 0, served_last, room - totals.n_decode_rows, turn);

  uint32_t logits_left = limits.max_logits_rows - totals.n_decode_rows;
  const uint32_t kept_free =
      totals.n_decode_rows == 0 ? 0 : std::max(totals.n_decode_rows, limits.decode_reserve);
  uint32_t rows_left = limits.row_budget - kept_free;
  for (RowDemand &demand : demands) {
    if (demand.n_prompt_left == 0) continue;
    uint32_t n_rows = std::min({demand.n_prompt_left, limits.prefill_chunk, rows_left});
    if (n_rows == demand.n_prompt_left) {
      if (logits_left == 0) {
        --n_rows;
      } else {
        --logits_left;
      }
    }
    demand.n_rows = n_rows;
    rows_left -= n_rows;
    totals.n_prefill_rows += n_rows;
  }
  return totals;
}

}  // namespace colibri

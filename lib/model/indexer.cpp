// SPDX-License-Identifier: Apache-2.0
//
// The sparse-attention indexer of a full layer. Its selection stays in the workspace for the shared
// layers behind it. Keys are cached for every position, also while nothing needs to be selected
// yet.

#include <algorithm>
#include <cmath>

#include "lib/model/pass.h"

namespace colibri {
namespace {

void write_index_keys(const Pass &pass, uint32_t layer) {
  const size_t width = pass.config.index_width;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    const float *key = pass.workspace.index_key + r * width;
    float *panel = pass.kv_layout.index_panels(row.slot, layer) +
                   row.position / kPanelColumns * width * kPanelColumns +
                   row.position % kPanelColumns;
    for (size_t i = 0; i < width; ++i) panel[i * kPanelColumns] = key[i];
  }
}

// The weights carry H^-0.5, the dot products width^-0.5, so that scores compare with the reference.
void scale_weights(const Pass &pass) {
  const float factor = 1.0f / std::sqrt(static_cast<float>(pass.config.index_heads));
  const size_t n = size_t{pass.n_rows()} * pass.config.index_heads;
  for (size_t i = 0; i < n; ++i) pass.workspace.index_weights[i] *= factor;
}

// Scores and selects for rows [first, first + n), at most kScoreRows.
void select_rows(const Pass &pass, uint32_t layer, uint32_t first, uint32_t n) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  bool is_needed = false;
  for (uint32_t i = 0; i < n; ++i) {
    const ForwardRow &row = pass.rows[first + i];
    IndexRow &target = workspace.index_rows[i];
    target.key_panels = pass.kv_layout.index_panels(row.slot, layer);
    target.n_keys = uses_selection(pass, row) ? row.position + 1 : 0;
    is_needed |= target.n_keys > 0;
    workspace.counters.kv_bytes += uint64_t{target.n_keys} * config.index_width * sizeof(float);
  }
  if (!is_needed) return;
  const size_t query_width = size_t{config.index_heads} * config.index_width;
  IndexScoresArgs scores;
  scores.rows = {workspace.index_rows.data(), n};
  scores.queries = workspace.index_query + first * query_width;
  scores.weights = workspace.index_weights + size_t{first} * config.index_heads;
  scores.weights_stride = config.index_heads;
  scores.n_heads = config.index_heads;
  scores.width = config.index_width;
  scores.scale = 1.0f / std::sqrt(static_cast<float>(config.index_width));
  scores.scores = workspace.index_scores;
  scores.score_stride = workspace.shape.capacity;
  pass.backend.index_scores(scores, *workspace.scratch);
  SelectArgs select;
  select.rows = scores.rows;
  select.scores = workspace.index_scores;
  select.score_stride = scores.score_stride;
  select.top_k = config.index_top_k;
  select.positions = workspace.selected + size_t{first} * config.index_top_k;
  pass.backend.select(select, *workspace.scratch);
}

}  // namespace

bool uses_selection(const Pass &pass, const ForwardRow &row) noexcept {
  return pass.config.index_top_k > 0 && row.position + 1 > pass.config.index_top_k;
}

void run_indexer(const Pass &pass, uint32_t layer) noexcept {
  write_index_keys(pass, layer);
  if (pass.workspace.selected == nullptr) return;  // no slot is long enough to need a selection
  scale_weights(pass);
  for (uint32_t first = 0; first < pass.n_rows(); first += kScoreRows) {
    select_rows(pass, layer, first, std::min(kScoreRows, pass.n_rows() - first));
  }
  if (pass.observer != nullptr) pass.observer->on_select(layer, pass.rows, pass.workspace.selected);
}

}  // namespace colibri

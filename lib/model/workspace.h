// SPDX-License-Identifier: Apache-2.0
//
// Workspace: every activation of a forward pass for up to max_rows rows, in one buffer, plus the
// fixed lists that the pass fills. Made once per engine; a pass allocates nothing.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/backend/backend.h"
#include "lib/base/buffer.h"
#include "lib/model/model.h"
#include "lib/model/pass_counters.h"
#include "lib/residency/expert_cache.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

// Rows whose index scores are held at once: [kScoreRows][capacity] floats.
constexpr uint32_t kScoreRows = 16;

struct WorkspaceShape {
  uint32_t max_rows = 0;
  uint32_t max_logits_rows = 0;
  uint32_t capacity = 0;         // positions of a slot, for index scores
  uint32_t smallest_group = 16;  // least activation group, for the number of scales
};

class Workspace {
 public:
  // Bytes of buffer and lists, without the backend's scratch.
  static uint64_t bytes(const ModelConfig &config, const WorkspaceShape &shape);

  // cache may be nullptr. Throws Error(kMemory).
  Workspace(const ModelConfig &config, const WorkspaceShape &shape, ExpertCache *cache,
            std::unique_ptr<Backend::Scratch> scratch);

  WorkspaceShape shape;
  std::unique_ptr<Backend::Scratch> scratch;
  std::unique_ptr<ExpertCache::Visit> visit;

  // Residual stream and its norm, [R][D].
  float *hidden = nullptr, *normed = nullptr, *projected = nullptr;
  // Latent attention (nullptr in grouped): [R][q latent], [R][kv latent + rope],
  // [R][H*(nope+rope)], [R][H*(kv latent+rope)], [R][H*kv latent], [R][H*value].
  float *query_latent = nullptr, *kv_raw = nullptr, *query = nullptr, *absorbed_query = nullptr,
        *context = nullptr, *head_values = nullptr;
  // Grouped attention uses `query` [R][H*head_width] and `context` of the same shape, and:
  // [R][Hkv*head_width], twice.
  float *key = nullptr, *value = nullptr;
  // Indexer: [R][Hi*di], [R][di], [R][Hi], [kScoreRows][capacity], [R][index_top_k].
  float *index_query = nullptr, *index_key = nullptr, *index_weights = nullptr,
        *index_scores = nullptr;
  int32_t *selected = nullptr;
  // Feed-forward: [R][max(dense, shared)], twice; [R][D]; [R][E]; [R][K]; [R*K][D].
  float *gate = nullptr, *up = nullptr, *shared_out = nullptr, *router_logits = nullptr,
        *route_weights = nullptr, *expert_out = nullptr;
  int32_t *route_experts = nullptr;
  // Rows grouped by expert: counting sort, [E+1], [R*K], [R*K].
  int32_t *expert_first = nullptr, *expert_rows = nullptr, *expert_outputs = nullptr;
  int32_t *needed_experts = nullptr;  // [E]
  float *shared_logits = nullptr;     // [R]; nullptr without a shared gate
  // Rotation: [R][rope/2] each. ids: [R].
  float *cosines = nullptr, *sines = nullptr;
  int32_t *token_ids = nullptr;
  // Quantised input of the current products.
  int8_t *quantised = nullptr;
  float *quantised_scales = nullptr;
  int32_t *quantised_sums = nullptr;
  // [Lr][D], [Lr][D], [Lr][V].
  float *head_input = nullptr, *head_normed = nullptr, *logits = nullptr;

  std::vector<AttentionRow> attention_rows;  // R
  std::vector<void *> store_places;          // R
  std::vector<IndexRow> index_rows;          // kScoreRows
  std::vector<LinearTask> linear_tasks;      // max(H, 8)
  std::vector<ExpertTask> expert_tasks;      // E

  PassCounters counters;  // of the current pass

 private:
  class Places;
  Workspace() = default;
  void assign(const ModelConfig &config, Places *places);
  void assign_attention(const ModelConfig &config, Places *places);
  Buffer memory_;
};

}  // namespace colibri

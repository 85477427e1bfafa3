// SPDX-License-Identifier: Apache-2.0
//
// Model: dense weights in memory, experts through the cache, and the forward pass over a batch of
// rows.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "lib/backend/backend.h"
#include "lib/base/parallel.h"
#include "lib/model/kv_layout.h"
#include "lib/model/pass_counters.h"
#include "lib/residency/expert_cache.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

enum class ActivationMode : uint8_t {
  kInteger,  // int8 activations for INT4 and INT8 weights
  kFloat,    // float activations everywhere; measures what the integers cost
};

struct ModelOptions {
  ActivationMode activations = ActivationMode::kInteger;
  float latent_norm_eps = 0;  // 0: as the config says
};

// One token position of one forward pass. Rows of one slot stand in ascending, gapless positions.
struct ForwardRow {
  int32_t token = 0;        // in [0, V)
  uint32_t position = 0;    // below the slot's capacity
  uint8_t *slot = nullptr;  // the slot's region, in the model's KvLayout
  int32_t logits_row = -1;  // row of the workspace's logits, or -1
};

// Sees intermediate results of a pass; for tests and tools. Called from the thread that runs
// forward().
class ForwardObserver {
 public:
  virtual ~ForwardObserver() = default;
  // hidden: [n_rows][D] residual stream; layer -1 is the embedding, l after layer l.
  virtual void on_hidden(int32_t layer, std::span<const ForwardRow> rows, const float *hidden) = 0;
  // experts, weights: [n_rows][K], ascending ids.
  virtual void on_route(uint32_t layer, std::span<const ForwardRow> rows, const int32_t *experts,
                        const float *weights) = 0;
  // positions: [n_rows][index_top_k] ascending for rows that see more than index_top_k keys; others
  // undefined.
  virtual void on_select(uint32_t layer, std::span<const ForwardRow> rows,
                         const int32_t *positions) = 0;
};

// Activations of one engine for up to max_rows rows. Reused by every pass; not thread-safe.
class Workspace;
struct WorkspaceDeleter {
  void operator()(Workspace *workspace) const noexcept;
};
using WorkspacePtr = std::unique_ptr<Workspace, WorkspaceDeleter>;

class Model {
 public:
  // Bytes of dense weights in packed form, and of one workspace. For the planner, before loading.
  static uint64_t dense_bytes(const Snapshot &snapshot);
  static uint64_t workspace_bytes(const Snapshot &snapshot, const Backend &backend,
                                  uint32_t max_rows, uint32_t max_logits_rows, uint32_t capacity);

  // Loads all dense weights. `progress(done_bytes, total_bytes)` is called from this thread and
  // returns false to stop: Error(kCancelled). Snapshot, backend, threads and cache must outlive the
  // model. `cache` may be null if the model has no routed experts. Workspaces of the model have at
  // most kv.max_rows rows. Throws Error: kIo, kMemory.
  static std::unique_ptr<Model> load(const Snapshot &snapshot, Backend &backend,
                                     ThreadPool &threads, ExpertCache *cache, const KvShape &kv,
                                     const ModelOptions &options,
                                     const std::function<bool(uint64_t, uint64_t)> &progress);
  ~Model();

  const ModelConfig &config() const noexcept;
  const KvLayout &kv_layout() const noexcept;  // of the shape given at load
  float latent_norm_eps() const noexcept;

  WorkspacePtr make_workspace(uint32_t max_rows, uint32_t max_logits_rows) const;

  // Runs all layers over `rows` (1 .. max_rows) and writes logits of the rows that ask. KV entries
  // of the rows' positions are written; nothing else of a slot changes. row_status[i] (n_rows)
  // tells which rows failed: a row fails (kIo) if an expert it chose could not be read; rows of the
  // same slot behind it fail with it. Others are not affected. Never throws; allocates nothing.
  void forward(std::span<const ForwardRow> rows, Workspace &workspace, std::span<Status> row_status,
               ForwardObserver *observer = nullptr) const noexcept;

  // Of all passes that have ended, over all workspaces. Any thread.
  PassCounters counters() const noexcept;

  // [V] logits of a logits row, valid until the next forward() on the workspace.
  const float *logits(const Workspace &workspace, uint32_t logits_row) const noexcept;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri

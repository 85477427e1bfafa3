// SPDX-License-Identifier: Apache-2.0
//
// A model with all that it needs, for tests below the C ABI: snapshot, threads, backend, cache, one
// slot's memory.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "lib/base/buffer.h"
#include "lib/model/model.h"

namespace colibri::test {

struct EngineOptions {
  std::string kernel_set;  // empty: the best
  uint32_t n_threads = 1;
  uint64_t expert_budget_bytes = 0;  // 0: all experts
  uint32_t capacity = 160;
  uint32_t max_rows = 128;
  KvType kv_type = KvType::kF32;
  ActivationMode activations = ActivationMode::kFloat;
  float latent_norm_eps = 1e-6f;  // 0: the config's
};

class Engine {
 public:
  Engine(const std::string &path, const EngineOptions &options);
  // An engine over a snapshot that the test has prepared.
  Engine(Snapshot snapshot, const EngineOptions &options);

  const ModelConfig &config() const { return snapshot_.config(); }
  const Snapshot &snapshot() const { return snapshot_; }
  const Model &model() const { return *model_; }
  ExpertCache &cache() { return *cache_; }
  uint64_t largest_expert_bytes() const;

  // Computes tokens from position `position` on in the slot, in chunks (0: as large as max_rows),
  // and returns the logits of all of them, row after row.
  std::vector<float> run(const std::vector<int32_t> &tokens, uint32_t position, uint32_t chunk,
                         ForwardObserver *observer = nullptr);
  // Greedy continuation of a prompt from an empty slot.
  std::vector<int32_t> generate(const std::vector<int32_t> &prompt, size_t n_tokens);

  uint8_t *slot() { return slot_.data(); }
  Workspace &workspace() { return *workspace_; }

 private:
  void load(const EngineOptions &options);
  Snapshot snapshot_;
  EngineOptions options_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<ExpertCache> cache_;
  std::unique_ptr<Model> model_;
  WorkspacePtr workspace_;
  Buffer slot_;
};

// Names of the kernel sets that this CPU can run.
std::vector<std::string> runnable_kernel_sets();

}  // namespace colibri::test

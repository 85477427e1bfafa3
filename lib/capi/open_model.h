// SPDX-License-Identifier: Apache-2.0
//
// OpenModel: everything behind a colibri_model handle, composed in the order in which it is needed
// and taken down in the reverse order. Knows nothing of handles.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/capi/planned_model.h"
#include "lib/model/model.h"
#include "lib/residency/expert_cache.h"
#include "lib/runtime/kv_pool.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

class OpenModel {
 public:
  // Throws Error as colibri_model_open() documents.
  OpenModel(const std::string &path, const OpenOptions &options);

  const PlannedModel &planned() const noexcept { return planned_; }
  const OpenOptions &options() const noexcept { return planned_.options(); }
  const ModelConfig &config() const noexcept { return planned_.snapshot().config(); }
  const Log &log() const noexcept { return planned_.options().log; }
  const Model &model() const noexcept { return *model_; }
  const Tokenizer *tokenizer() const noexcept { return tokenizer_.get(); }
  KvPool &pool() noexcept { return *pool_; }
  const KvPool &pool() const noexcept { return *pool_; }
  // All zero for a model without routed experts.
  ExpertCacheStats expert_stats() const noexcept;
  // Ids that end a generation by default, ascending, all in the vocabulary.
  const std::vector<int32_t> &stop_ids() const noexcept { return stop_ids_; }
  // Ids that can be sampled are below this.
  uint32_t n_token_ids() const noexcept;
  // What saved slots of this model must agree with.
  KvFingerprint fingerprint() const noexcept;

 private:
  void load(const OpenOptions &options);

  PlannedModel planned_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ExpertCache> cache_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvPool> pool_;
  std::vector<int32_t> stop_ids_;
};

}  // namespace colibri

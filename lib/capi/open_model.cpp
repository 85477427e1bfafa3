// SPDX-License-Identifier: Apache-2.0
//
// Opening, step by step. The tokenizer comes before the weights: parsing it takes more memory than
// keeping it, and that peak must not stand on top of the others.

#include "lib/capi/open_model.h"

#include <algorithm>
#include <cinttypes>
#include <optional>
#include <string_view>

namespace colibri {
namespace {

std::vector<int32_t> collect_stop_ids(const Snapshot &snapshot, const Tokenizer *tokenizer) {
  std::vector<int32_t> ids;
  const int64_t vocabulary = snapshot.config().vocabulary_size;
  for (const int64_t id : snapshot.stop_ids()) {
    if (id >= 0 && id < vocabulary) ids.push_back(static_cast<int32_t>(id));
  }
  if (tokenizer != nullptr) {
    for (const std::string &text : snapshot.stop_token_texts()) {
      const std::optional<int32_t> id = tokenizer->find_token(text);
      if (id.has_value() && *id < vocabulary) ids.push_back(*id);
    }
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace

OpenModel::OpenModel(const std::string &path, const OpenOptions &options)
    : planned_(path, options) {
  const Snapshot &snapshot = planned_.snapshot();
  for (const std::string &warning : snapshot.warnings()) {
    log().write(LogLevel::kWarning, "%s", warning.c_str());
  }
  require_capacity(planned_.plan());
  if (!planned_.tokenizer_path().empty()) tokenizer_ = Tokenizer::open(planned_.tokenizer_path());
  load(planned_.options());
  stop_ids_ = collect_stop_ids(snapshot, tokenizer_.get());
  if (stop_ids_.empty()) {
    log().write(
        LogLevel::kWarning,
        "the snapshot names no token that ends a text; requests end by length or stop string");
  }
  const MemoryPlan &plan = planned_.plan().memory;
  log().write(LogLevel::kInfo,
              "opened %s: %u layers, kernel set %s, %u threads, %" PRIu64 " of %" PRIu64
              " bytes planned, room for %" PRIu64 " of %" PRIu64 " experts",
              config().model_type.c_str(), config().n_layers, planned_.backend().kernel_set_name(),
              options.n_threads, plan.total_bytes, plan.inputs.budget_bytes,
              planned_.plan().n_ram_experts(), plan.inputs.n_experts);
}

void OpenModel::load(const OpenOptions &options) {
  const Snapshot &snapshot = planned_.snapshot();
  const MemoryPlan &plan = planned_.plan().memory;
  if (plan.inputs.n_experts != 0) {
    ExpertCacheOptions cache_options;
    cache_options.budget_bytes = plan.expert_bytes;
    cache_options.n_loader_threads = options.n_loader_threads;
    cache_ = std::make_unique<ExpertCache>(snapshot, cache_options);
  }
  const auto progress = [&options](uint64_t done_bytes, uint64_t total_bytes) {
    return options.progress == nullptr ||
           options.progress(options.progress_user, done_bytes, total_bytes) == 0;
  };
  model_ = Model::load(snapshot, planned_.backend(), planned_.threads(), cache_.get(),
                       {options.context_tokens, options.max_rows, options.kv_type}, options.model,
                       progress);
  pool_ = std::make_unique<KvPool>(model_->kv_layout(), options.n_slots);
}

ExpertCacheStats OpenModel::expert_stats() const noexcept {
  return cache_ == nullptr ? ExpertCacheStats() : cache_->stats();
}

uint32_t OpenModel::n_token_ids() const noexcept {
  const uint32_t vocabulary = config().vocabulary_size;
  return tokenizer_ == nullptr ? vocabulary : std::min(tokenizer_->size(), vocabulary);
}

KvFingerprint OpenModel::fingerprint() const noexcept {
  KvFingerprint fingerprint;
  fingerprint.snapshot_identity = planned_.snapshot().index().identity_hash();
  fingerprint.config_hash = hash_model_config(config());
  fingerprint.latent_norm_eps = model_->latent_norm_eps();
  fingerprint.activation_mode = static_cast<uint32_t>(options().model.activations);
  fingerprint.vocabulary_size = config().vocabulary_size;
  return fingerprint;
}

}  // namespace colibri

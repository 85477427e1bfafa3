// SPDX-License-Identifier: Apache-2.0
//
// Counts tensors in the order of the model.

#include "lib/snapshot/tensor_census.h"

#include <algorithm>

#include "lib/snapshot/printable.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

// A layer without a single expert tensor is counted without a look-up per expert, so that a config
// that lies about its size costs nothing.
class Census {
 public:
  Census(const TensorIndex &index, const ModelConfig &config)
      : index_(index), config_(config), has_experts_(config.n_layers, false) {
    for (const std::string_view name : index.names()) {
      const auto place = parse_tensor_name(name);
      if (place && place->expert && place->layer < config.n_layers)
        has_experts_[place->layer] = true;
    }
  }

  void require_complete(const std::string &missing_shards) {
    count(kEmbeddingName);
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) count_layer(layer);
    count(kFinalNormName);
    if (!config_.ties_embedding) count(kHeadName);
    if (n_absent_ == 0 && missing_shards.empty()) return;
    reject_fused_experts();
    std::string text = "incomplete model: ";
    if (!missing_shards.empty()) text += "missing shard " + missing_shards + "; ";
    text += std::to_string(n_absent_) + " of " + std::to_string(n_needed_) + " tensors absent";
    if (!absent_layers_.empty()) text += " (layers " + describe_ranges(absent_layers_) + ")";
    if (!first_absent_.empty()) text += ", first " + printable(first_absent_);
    text += "; " + describe_found();
    throw_error(StatusCode::kIncomplete, "%s", text.c_str());
  }

 private:
  void count(const std::string &name) {
    ++n_needed_;
    const std::string absent = find_absent_part(index_, name);
    if (!absent.empty()) note_absent(absent, 1);
  }

  void note_absent(const std::string &name, uint64_t n_tensors) {
    if (n_absent_ == 0) first_absent_ = name;
    n_absent_ += n_tensors;
  }

  void count_layer(uint32_t layer) {
    const uint64_t before = n_absent_;
    const std::string prefix = layer_prefix(layer);
    for (const TensorRule &rule : layer_rules()) {
      if (applies(rule.part, config_, layer)) count(prefix + rule.suffix);
    }
    count_layer_experts(layer);
    if (n_absent_ != before) absent_layers_.push_back(layer);
  }

  void count_layer_experts(uint32_t layer) {
    const uint32_t n_experts = count_experts(config_, layer);
    if (n_experts != 0 && !has_experts_[layer]) {
      // bounded: by the limit of experts in model_config.cpp
      const uint64_t n_tensors = n_experts * (index_.is_packed() ? 1 : expert_rules().size());
      n_needed_ += n_tensors;
      note_absent(first_expert_tensor(layer), n_tensors);
      return;
    }
    for (uint32_t expert = 0; expert < n_experts; ++expert) count_expert(layer, expert);
  }

  // An expert is one packed tensor or three matrices. One that is absent altogether is missed in
  // the form of the snapshot.
  void count_expert(uint32_t layer, uint32_t expert) {
    const bool is_one =
        index_.is_packed() &&
        (index_.packed_layout(expert_name(layer, expert)) != nullptr || !has_matrix(layer, expert));
    if (is_one) return count(expert_name(layer, expert));
    for (const ExpertRule &rule : expert_rules()) count(expert_matrix_name(layer, expert, rule));
  }

  bool has_matrix(uint32_t layer, uint32_t expert) const {
    return std::any_of(expert_rules().begin(), expert_rules().end(), [&](const ExpertRule &rule) {
      return index_.find(expert_matrix_name(layer, expert, rule)) != nullptr;
    });
  }

  std::string first_expert_tensor(uint32_t layer) const {
    return index_.is_packed() ? expert_name(layer, 0)
                              : expert_matrix_name(layer, 0, expert_rules()[0]);
  }

  void reject_fused_experts() const {
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) {
      const std::string name = layer_prefix(layer) + kFusedExpertsSuffix;
      if (index_.find(name) == nullptr) continue;
      throw_error(StatusCode::kUnsupported,
                  "tensor %s holds all experts of a layer in one; only one tensor per expert and "
                  "matrix is read",
                  name.c_str());
    }
  }

  std::string describe_found() const {
    std::vector<std::string> names;
    for (const ShardFile &file : index_.files()) names.push_back(file.name);
    return describe_shards(names);
  }

  const TensorIndex &index_;
  const ModelConfig &config_;
  std::vector<bool> has_experts_;
  std::vector<uint64_t> absent_layers_;
  std::string first_absent_;
  uint64_t n_needed_ = 0;
  uint64_t n_absent_ = 0;
};

}  // namespace

void require_complete(const TensorIndex &index, const ModelConfig &config,
                      const std::string &missing_shards) {
  Census(index, config).require_complete(missing_shards);
}

}  // namespace colibri

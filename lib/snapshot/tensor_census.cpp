// SPDX-License-Identifier: Apache-2.0
//
// Counts tensors in the order of the model.

#include "lib/snapshot/tensor_census.h"

#include <algorithm>

#include "lib/snapshot/expert_sources.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

// A layer without a single expert tensor is counted without a look-up per expert, so that a config
// that lies about its size costs nothing.
class Census {
 public:
  Census(const TensorIndex &index, const ModelConfig &config)
      : index_(index),
        config_(config),
        names_(choose_names(index, config)),
        forms_(find_expert_forms(index, config, names_)) {}

  void require_complete(const std::string &missing_shards) {
    count(kEmbeddingName);
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) count_layer(layer);
    count(kFinalNormName);
    if (!config_.ties_embedding) count(kHeadName);
    if (n_absent_ == 0 && missing_shards.empty()) return;
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
    for (const TensorRule &rule : layer_rules()) {
      if (rule.applies(config_, layer)) count(tensor_name(names_, layer, rule));
    }
    count_layer_experts(layer);
    if (n_absent_ != before) absent_layers_.push_back(layer);
  }

  void count_layer_experts(uint32_t layer) {
    const uint32_t n_experts = count_experts(config_, layer);
    if (n_experts == 0) return;
    ExpertForm form = forms_[layer];
    // Experts with biases stand in tensors of all experts, also where there are none.
    if (form == ExpertForm::kAbsent && config_.has_expert_bias) form = ExpertForm::kFusedMxFp4;
    switch (form) {
      case ExpertForm::kFused:
      case ExpertForm::kFusedMxFp4:
        for (const std::string &name : needed_fused_tensors(config_, names_, layer, form)) {
          count_fused(name);
        }
        return;
      case ExpertForm::kSeparate:
      case ExpertForm::kPacked:
        for (uint32_t expert = 0; expert < n_experts; ++expert) count_expert(layer, expert);
        return;
      case ExpertForm::kAbsent: {
        // bounded: by the limit of experts in config_parts.cpp
        const uint64_t n_tensors = n_experts * (index_.is_packed() ? 1 : expert_rules().size());
        n_needed_ += n_tensors;
        note_absent(first_expert_tensor(layer), n_tensors);
      }
    }
  }

  // Codes of MXFP4 are bytes whose scales are counted by themselves.
  void count_fused(const std::string &name) {
    ++n_needed_;
    if (index_.find(name) == nullptr) note_absent(name, 1);
  }

  // An expert is one packed tensor or three matrices. One that is absent altogether is missed in
  // the form of the snapshot.
  void count_expert(uint32_t layer, uint32_t expert) {
    const bool is_one = index_.is_packed() &&
                        (index_.packed_layout(expert_name(names_, layer, expert)) != nullptr ||
                         !has_matrix(layer, expert));
    if (is_one) return count(expert_name(names_, layer, expert));
    for (const ExpertRule &rule : expert_rules()) {
      count(expert_matrix_name(names_, layer, expert, rule));
    }
  }

  bool has_matrix(uint32_t layer, uint32_t expert) const {
    return std::any_of(expert_rules().begin(), expert_rules().end(), [&](const ExpertRule &rule) {
      return index_.find(expert_matrix_name(names_, layer, expert, rule)) != nullptr;
    });
  }

  std::string first_expert_tensor(uint32_t layer) const {
    return index_.is_packed() ? expert_name(names_, layer, 0)
                              : expert_matrix_name(names_, layer, 0, expert_rules()[0]);
  }

  std::string describe_found() const {
    std::vector<std::string> names;
    for (const ShardFile &file : index_.files()) names.push_back(file.name);
    return describe_shards(names);
  }

  const TensorIndex &index_;
  const ModelConfig &config_;
  const NameTable &names_;
  const std::vector<ExpertForm> forms_;
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

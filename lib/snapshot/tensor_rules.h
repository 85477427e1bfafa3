// SPDX-License-Identifier: Apache-2.0
//
// The table of tensors of a layer: which layers have which tensor, of which shape and under which
// name, for all families at once. A rule applies by what the config chooses, never by model_type. A
// tensor name is spelled here or in a NameTable and nowhere else.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/snapshot/snapshot.h"

namespace colibri {

enum class TensorForm : uint8_t {
  kMatrix,
  kHeadMatrix,   // kv_b_proj: a matrix, or packed by heads (LayerSources::kv_heads)
  kPlainMatrix,  // F32, F16 or BF16
  kVector
};
using Extent = uint64_t (*)(const ModelConfig &config);
using AppliesFn = bool (*)(const ModelConfig &config, uint32_t layer);

struct TensorRule {
  AppliesFn applies;
  const char *suffix;  // behind layer_prefix(); nullptr: the name is varying
  const char *NameTable::*varying;
  WeightSource LayerSources::*field;
  TensorForm form;
  Extent rows;     // the size of a vector
  Extent columns;  // nullptr for vectors
};

// One of the matrices of a routed expert that has tensors of its own.
struct ExpertRule {
  const char *NameTable::*suffix;  // behind expert_name() and a dot
  WeightSource ExpertSource::*field;
  Extent rows;
  Extent columns;
};

constexpr const char *kEmbeddingName = "model.embed_tokens.weight";
constexpr const char *kFinalNormName = "model.norm.weight";
constexpr const char *kHeadName = "lm_head.weight";

// Each field of LayerSources occurs in at most one rule that applies to a layer, so rules that
// apply can be visited in the order of the table.
std::span<const TensorRule> layer_rules() noexcept;
std::span<const ExpertRule> expert_rules() noexcept;  // gate, up, down

std::string tensor_name(const NameTable &names, uint32_t layer, const TensorRule &rule);
// Routed experts of a layer; 0 for a dense one.
uint32_t count_experts(const ModelConfig &config, uint32_t layer) noexcept;

std::string layer_prefix(uint32_t layer);  // "model.layers.7."
// "model.layers.7.mlp.experts.3": the tensor of a packed expert.
std::string expert_name(const NameTable &names, uint32_t layer, uint32_t expert);
std::string expert_matrix_name(const NameTable &names, uint32_t layer, uint32_t expert,
                               const ExpertRule &rule);

// The table of the family under which the snapshot has the most tensors of its first MoE layer; the
// first one if none fits, so that messages name what is usual.
const NameTable &choose_names(const TensorIndex &index, const ModelConfig &config);

// A tensor name taken apart.
struct TensorPlace {
  uint32_t layer = 0;
  std::optional<uint32_t> expert;  // the expert's own tensor, or one of its matrices
  bool is_fused = false;           // a tensor of all experts of the layer
};

// nullopt for names that belong to no layer. Numbers with leading zeros are no ids.
std::optional<TensorPlace> parse_tensor_name(const NameTable &names,
                                             std::string_view name) noexcept;

}  // namespace colibri

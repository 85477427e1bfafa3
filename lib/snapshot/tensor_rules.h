// SPDX-License-Identifier: Apache-2.0
//
// The table of tensors of the glm_moe_dsa layer: which layers have which tensor, under which name
// and of which shape. A tensor name is spelled nowhere else.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lib/snapshot/snapshot.h"

namespace colibri {

// In which layers a rule applies.
enum class LayerPart : uint8_t { kEvery, kFullIndexer, kDense, kMoe, kShared };
enum class TensorForm : uint8_t {
  kMatrix,
  kHeadMatrix,   // kv_b_proj: a matrix, or packed by heads (LayerSources::kv_heads)
  kPlainMatrix,  // F32, F16 or BF16
  kVector
};
using Extent = uint64_t (*)(const ModelConfig &config);

struct TensorRule {
  LayerPart part;
  const char *suffix;  // behind layer_prefix()
  WeightSource LayerSources::*field;
  TensorForm form;
  Extent rows;     // the size of a vector
  Extent columns;  // nullptr for vectors
};

// One of the matrices of a routed expert that is not packed.
struct ExpertRule {
  const char *suffix;  // behind expert_name() and a dot
  WeightSource ExpertSource::*field;
  Extent rows;
  Extent columns;
};

constexpr const char *kEmbeddingName = "model.embed_tokens.weight";
constexpr const char *kFinalNormName = "model.norm.weight";
constexpr const char *kHeadName = "lm_head.weight";
constexpr const char *kFusedExpertsSuffix = "mlp.experts.gate_up_proj";

std::span<const TensorRule> layer_rules() noexcept;
std::span<const ExpertRule> expert_rules() noexcept;  // gate, up, down

bool applies(LayerPart part, const ModelConfig &config, uint32_t layer) noexcept;
// Routed experts of a layer; 0 for a dense one.
uint32_t count_experts(const ModelConfig &config, uint32_t layer) noexcept;

std::string layer_prefix(uint32_t layer);  // "model.layers.7."
// "model.layers.7.mlp.experts.3": the tensor of a packed expert.
std::string expert_name(uint32_t layer, uint32_t expert);
std::string expert_matrix_name(uint32_t layer, uint32_t expert, const ExpertRule &rule);

// A tensor name taken apart.
struct TensorPlace {
  uint32_t layer = 0;
  std::optional<uint32_t> expert;  // the expert's own tensor, or one of its matrices
};

// nullopt for names that belong to no layer. Numbers with leading zeros are no ids.
std::optional<TensorPlace> parse_tensor_name(std::string_view name) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The routed experts of a layer, in whichever form a snapshot has them: a tensor for each matrix,
// tensors that hold all experts, or packed. A layer has one form; packed and separate experts may
// be mixed, as before.

#pragma once

#include <string>
#include <vector>

#include "lib/snapshot/snapshot.h"

namespace colibri {

enum class ExpertForm : uint8_t {
  kSeparate,
  kFused,       // plain tensors [E, ..]
  kFusedMxFp4,  // blocks and scales [E, ..]
  kPacked,
  kAbsent  // no tensor of any form
};
const char *expert_form_name(ExpertForm form) noexcept;

// Of each layer of the trunk, by names alone, in one walk over them. kPacked stands for every layer
// of a packed snapshot that has an expert's tensor. Throws Error(kFormat) if a layer has experts in
// two forms other than packed and separate ones: names a tensor of each.
std::vector<ExpertForm> find_expert_forms(const TensorIndex &index, const ModelConfig &config,
                                          const NameTable &names);

// Names that must be there for a layer whose tensors hold all experts (kFused, kFusedMxFp4).
std::vector<std::string> needed_fused_tensors(const ModelConfig &config, const NameTable &names,
                                              uint32_t layer, ExpertForm form);

// All experts of a layer. Throws as find_matrix(), find_fused_matrix(), find_packed_expert(); an
// expert that is there twice is Error(kFormat). Experts with biases are Error(kUnsupported) in
// tensors of their own, whose names no published model has.
std::vector<ExpertSource> resolve_experts(const TensorIndex &index, const ModelConfig &config,
                                          const NameTable &names, uint32_t layer, ExpertForm form);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Matrices inside packed tensors: where each lies and how it is laid out, from the layout that the
// manifest gives the tensor. The index has checked that layout against type, size and place of the
// tensor; here it is checked against the shapes that the tensor's use implies. All functions throw
// Error(kFormat), which names tensor, file and numbers, where form or shape differ; the tensor is
// there and packed.

#pragma once

#include <cstdint>
#include <string>

#include "lib/snapshot/snapshot.h"

namespace colibri {

// PackedForm::kMatrix of `rows` outputs and `columns` inputs.
WeightSource find_packed_matrix(const TensorIndex &index, const std::string &name, uint64_t rows,
                                uint64_t columns);

// PackedForm::kExpert: gate and up [expert_width, width], down [width, expert_width].
ExpertSource find_packed_expert(const TensorIndex &index, const std::string &name,
                                uint64_t expert_width, uint64_t width);

// PackedForm::kHeads of the config's latent attention. A kv_b_proj packed as one matrix is
// Error(kUnsupported): its key half cannot be transposed as it is.
KvHeadsSource find_packed_heads(const TensorIndex &index, const std::string &name,
                                const ModelConfig &config);

// One half of one head as a matrix of its own: part 0 is the key half, 1 the value half.
WeightSource head_part(const KvHeadsSource &heads, uint32_t head, size_t part);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a synthesised snapshot and how each is made: names and sizes from the table by
// which models are read, magnitudes so that all activations are near 1 and the layers add little to
// the embedding, whatever their number.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "lib/convert/packed_writer.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

struct SynthesisStep {
  enum class Kind : uint8_t {
    kCodes,       // packed: random codes
    kHead,        // packed: the head of TopicVocabulary
    kEmbedding,   // BF16: its embedding
    kDirections,  // F32 or BF16: random rows of length kLogitDeviation
    kBias,        // F32: the router's biases, in an order of this layer's own
    kConstant,    // F32: `values[0]` everywhere
  };
  Kind kind = Kind::kConstant;
  std::array<float, 3> values = {};  // kCodes: the scale of each part
};

struct SynthesisPlan {
  PackedWriterPlan output;           // tensors, options and model type
  std::vector<SynthesisStep> steps;  // one per output.tensors
};

// `config` is one of synthesis_config().
SynthesisPlan plan_synthesis(const ModelConfig &config);

}  // namespace colibri

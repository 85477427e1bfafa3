// SPDX-License-Identifier: Apache-2.0
//
// Makes the bytes of the tensors of a synthesised snapshot, in blocks that threads share. The bytes
// depend on seed, name and place alone.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/convert/router_simulation.h"
#include "lib/convert/sliced_tasks.h"
#include "lib/convert/synthesis_plan.h"
#include "lib/convert/topic_vocabulary.h"

namespace colibri {

class TensorSynthesis {
 public:
  // `design` and `threads` must outlive it.
  TensorSynthesis(const ModelConfig &config, const RoutingDesign &design, uint64_t seed,
                  ThreadPool &threads);

  // Hands tensor.bytes to `sink`. Throws what sink throws, and std::bad_alloc.
  void stream(const OutputTensor &tensor, const SynthesisStep &step, ByteSink sink);

 private:
  using MakeBlock = FunctionRef<void(uint64_t first, std::span<uint8_t> bytes)>;

  void stream_blocks(uint64_t bytes, uint64_t block_bytes, MakeBlock make, ByteSink sink);
  void stream_codes(const OutputTensor &tensor, const SynthesisStep &step, ByteSink sink);
  void stream_head(const OutputTensor &tensor, ByteSink sink);
  void stream_embedding(const OutputTensor &tensor, ByteSink sink);
  void stream_directions(const OutputTensor &tensor, ByteSink sink);
  std::vector<float> order_biases(const OutputTensor &tensor) const;
  uint64_t key_of(const OutputTensor &tensor) const noexcept;

  const RoutingDesign &design_;
  uint64_t seed_;
  ThreadPool &threads_;
  TopicVocabulary vocabulary_;
  std::vector<uint8_t> slice_;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Sampler: logits to a token. A pure function of logits, parameters, recent tokens and position: the random
// number is a hash of (seed, position), so batch mates and history of calls do not matter.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/status.h"

namespace colibri {

struct SamplerParameters {
  float temperature = 0;         // 0: greedy, ties to the lower id
  uint32_t top_k = 0;            // 0: off
  float top_p = 0;               // 0: off
  float min_p = 0;               // 0: off
  float repetition_penalty = 0;  // 0: off (1.0)
  uint32_t repetition_window = 64;
  uint64_t seed = 0;
};

// kArgument with the field, its value and its range.
Status check_sampler(const SamplerParameters &parameters) noexcept;

class Sampler {
 public:
  // n_logits: V. n_token_ids: ids at or above are never chosen. Throws Error(kMemory).
  Sampler(uint32_t n_logits, uint32_t n_token_ids);

  struct Choice {
    int32_t token = -1;
    float logprob = 0;  // log-softmax of the raw logits over valid ids, if asked for
  };
  // `recent`: all tokens before this position, prompt included. `position`: of the chosen token in its sequence.
  // kNonFinite if a valid logit is NaN or +infinity, or none is finite. Allocates nothing.
  Status choose(std::span<const float> logits, const SamplerParameters &parameters,
                std::span<const int32_t> recent, uint64_t position, bool wants_logprob, Choice *choice) noexcept;

 private:
  uint32_t n_token_ids_;
  std::vector<float> scores_;
  std::vector<int32_t> order_;
};

}  // namespace colibri

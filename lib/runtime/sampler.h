// SPDX-License-Identifier: Apache-2.0
//
// Sampler: logits to a token. A pure function of logits, parameters, recent tokens and position:
// the random number is a hash of (seed, position), so batch mates and history of calls do not
// matter. Arithmetic is double with an exp of our own, so the same logits give the same token on
// every machine.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/status.h"

namespace colibri {

struct SamplerParameters {
  float temperature = 0;            // 0: greedy, ties to the lower id; else 1e-3 .. 100
  uint32_t top_k = 0;               // 0: off
  float top_p = 0;                  // 0: off; else up to 1
  float min_p = 0;                  // 0: off; else up to 1
  float repetition_penalty = 0;     // 0: off; else 0.01 .. 100
  uint32_t repetition_window = 64;  // tokens; 0: 64
  uint64_t seed = 0;
};

// kArgument with the field, its value and its range.
Status check_sampler(const SamplerParameters &parameters) noexcept;

// The draw at a position: 53 bits of a hash of (seed, position) as a number in [0, 1).
double draw_uniform(uint64_t seed, uint64_t position) noexcept;

// How a token is chosen. Repetition penalty: each distinct token among the last repetition_window
// ones has its logit divided (if positive) or multiplied (otherwise) once. Temperature 0 takes the
// largest score then. Else candidates are ranked by score, ties to the lower id, with weights
// exp((score - largest) / temperature). top_k keeps the first k; top_p keeps the shortest start
// whose weight reaches top_p of what is left; min_p drops weights below min_p (the largest weight
// is 1). The draw walks the ranked rest until the weight passed exceeds the drawn share.
class Sampler {
 public:
  // n_logits: V. n_token_ids: ids at or above are never chosen. Throws Error(kMemory).
  Sampler(uint32_t n_logits, uint32_t n_token_ids);

  struct Choice {
    int32_t token = -1;
    float logprob = 0;  // log-softmax of the raw logits over valid ids, if asked for
  };
  // `logits`: n_logits of them. `recent`: all tokens before this position, prompt included.
  // `position`: of the chosen token in its sequence. kNonFinite if a valid logit is NaN or
  // +infinity, or none is finite. -infinity means that a token cannot be chosen. Allocates nothing.
  // O(V) when greedy, else O(V + k log V) for k tokens ranked.
  Status choose(std::span<const float> logits, const SamplerParameters &parameters,
                std::span<const int32_t> recent, uint64_t position, bool wants_logprob,
                Choice *choice) noexcept;

 private:
  // The weight of a candidate in one draw.
  struct Weigher {
    const float *scores;
    double top;  // the largest score
    double temperature;
    double operator()(int32_t id) const noexcept;
  };

  void penalise(std::span<const float> logits, const SamplerParameters &parameters,
                std::span<const int32_t> recent) noexcept;
  int32_t draw(const SamplerParameters &parameters, const Weigher &weigh,
               uint64_t position) noexcept;
  void collect(const SamplerParameters &parameters, const Weigher &weigh) noexcept;
  void cut(const SamplerParameters &parameters, const Weigher &weigh) noexcept;
  // The candidate at a rank, below n_candidates_; ranks as many as that takes.
  int32_t at_rank(size_t rank) noexcept;

  uint32_t n_token_ids_;
  std::vector<float> scores_;   // after the repetition penalty
  std::vector<int32_t> order_;  // candidates: a heap of unranked ones, then ranked ones in reverse
  size_t n_candidates_ = 0;
  size_t n_ranked_ = 0;
  size_t n_kept_ = 0;   // candidates of rank below it are left
  double total_ = 0.0;  // their weight
};

}  // namespace colibri

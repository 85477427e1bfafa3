// SPDX-License-Identifier: Apache-2.0
//
// Scores of the index keys of one row: the definition.
//
// Contract: IndexScoresFn in cpu/kernels.h.

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu/kernels.h"

namespace colibri::cpu {

void index_scores_ref(const IndexScoresKernelArgs &args) noexcept {
  constexpr size_t kLanes = 16;
  for (size_t s = args.first_key; s < args.first_key + args.n_keys; ++s) {
    const float *key = args.key_panels + (s / kLanes) * args.width * kLanes + s % kLanes;
    float score = 0.0f;
    for (size_t h = 0; h < args.n_heads; ++h) {
      const float *query = args.queries + h * args.width;
      float dot = 0.0f;
      for (size_t d = 0; d < args.width; ++d) dot = fmaf(query[d], key[d * kLanes], dot);
      dot *= args.scale;
      score = fmaf(args.weights[h], dot > 0.0f ? dot : 0.0f, score);
    }
    args.scores[s] = score;
  }
}

}  // namespace colibri::cpu

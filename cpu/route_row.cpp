// SPDX-License-Identifier: Apache-2.0
//
// Selection by repeated search for the best: K passes over E scores, which is little beside the
// router's matrix.

#include "cpu/route_row.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/float_math_ref.h"

namespace colibri::cpu {
namespace {

constexpr float kRejected = -std::numeric_limits<float>::infinity();

bool is_better(float a, float b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

// Index of the best score that is not among the n chosen ones; the lower index wins a tie.
int32_t find_best(const float *scores, size_t n_scores, const int32_t *chosen, size_t n_chosen) {
  int32_t best = -1;
  for (size_t i = 0; i < n_scores; ++i) {
    if (best >= 0 && !is_better(scores[i], scores[best])) continue;
    const int32_t index = static_cast<int32_t>(i);
    if (std::find(chosen, chosen + n_chosen, index) == chosen + n_chosen) best = index;
  }
  return best;
}

// Sum of the two largest scores of a group; of one if there is only one.
float group_score(const float *scores, size_t n) {
  const int32_t first = find_best(scores, n, nullptr, 0);
  if (n < 2) return scores[first];
  return scores[first] + scores[find_best(scores, n, &first, 1)];
}

// Sets the scores of all groups but the best n_top_groups to -infinity.
void reject_groups(const RouteArgs &args, float *scores, float *group_scores) {
  const size_t group_size = args.n_experts / args.n_groups;
  for (size_t g = 0; g < args.n_groups; ++g) {
    group_scores[g] = group_score(scores + g * group_size, group_size);
  }
  for (size_t g = 0; g < args.n_groups; ++g) {
    size_t n_ahead = 0;
    for (size_t other = 0; other < args.n_groups; ++other) {
      if (other == g) continue;
      const bool wins = other < g ? !is_better(group_scores[g], group_scores[other])
                                  : is_better(group_scores[other], group_scores[g]);
      n_ahead += wins ? 1 : 0;
    }
    if (n_ahead < args.n_top_groups) continue;
    std::fill_n(scores + g * group_size, group_size, kRejected);
  }
}

// Of the n chosen logits in ascending id. exp_ref for every set: K numbers are not worth a kernel.
void soften(float *weights, size_t n) {
  float most = kRejected;
  for (size_t k = 0; k < n; ++k) most = weights[k] > most ? weights[k] : most;
  float sum = 0.0f;
  for (size_t k = 0; k < n; ++k) {
    weights[k] = exp_ref(weights[k] - most);
    sum += weights[k];
  }
  for (size_t k = 0; k < n; ++k) weights[k] /= sum;
}

void normalise(float *weights, size_t n) {
  float sum = 0.0f;
  for (size_t k = 0; k < n; ++k) sum += weights[k];
  for (size_t k = 0; k < n; ++k) weights[k] /= sum + 1e-20f;
}

}  // namespace

void route_row(const RouteArgs &args, size_t row, float *scratch) noexcept {
  const float *values = scratch;
  float *scores = scratch + args.n_experts;
  const bool is_biased = args.kind == RouterKind::kSigmoid && args.bias != nullptr;
  for (size_t e = 0; e < args.n_experts; ++e) {
    scores[e] = is_biased ? values[e] + args.bias[e] : values[e];
  }
  if (args.n_groups > 1) reject_groups(args, scores, scores + args.n_experts);

  int32_t *experts = args.experts + row * args.top_k;
  float *weights = args.weights + row * args.top_k;
  for (size_t k = 0; k < args.top_k; ++k) {
    experts[k] = find_best(scores, args.n_experts, experts, k);
  }
  std::sort(experts, experts + args.top_k);
  for (size_t k = 0; k < args.top_k; ++k) weights[k] = values[experts[k]];
  if (args.kind == RouterKind::kSoftmaxOfChosen) {
    soften(weights, args.top_k);
  } else if (args.normalises) {
    normalise(weights, args.top_k);
  }
  for (size_t k = 0; k < args.top_k; ++k) weights[k] *= args.scale;
}

}  // namespace colibri::cpu

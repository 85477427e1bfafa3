// SPDX-License-Identifier: Apache-2.0
//
// All trials use the same random numbers, so what is measured changes smoothly with what is tried,
// and a bisection finds it. Arithmetic is exact IEEE operations alone: the same design everywhere.

#include "lib/convert/router_simulation.h"

#include <algorithm>
#include <cmath>

#include "lib/base/portable_math.h"
#include "lib/base/random_stream.h"
#include "lib/base/status.h"

namespace colibri {
namespace {

constexpr size_t kSamples = 2048;
constexpr int kBiasRounds = 24;
constexpr int kBisections = 24;
// Of the smallest repeat that is offered, so that it can be had.
constexpr double kRepeatStep = 0.001;

float sigmoid(float logit) noexcept {
  const double power = portable_exp(-std::fabs(static_cast<double>(logit)));
  return static_cast<float>(logit < 0 ? power / (1.0 + power) : 1.0 / (1.0 + power));
}

double falling(uint32_t rank, double skew) noexcept {
  return portable_exp(-skew * portable_log(rank + 1.0));
}

// The odds of a share; shares of 0 and 1, which a sample of finite size gives, have finite ones.
double odds(double share) noexcept {
  constexpr double kLeast = 0.25 / kSamples;
  const double inside = std::clamp(share, kLeast, 1.0 - kLeast);
  return inside / (1.0 - inside);
}

size_t count_common(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
  size_t n = 0;
  for (const uint32_t expert : a) n += std::find(b.begin(), b.end(), expert) != b.end() ? 1 : 0;
  return n;
}

}  // namespace

std::vector<double> target_frequencies(const RouterShape &shape, double skew) {
  std::vector<double> result(shape.n_experts);
  double rest = 0;
  for (uint32_t r = 0; r < shape.n_experts; ++r) rest += (result[r] = falling(r, skew));
  double factor = shape.n_chosen / rest;
  uint32_t n_capped = 0;
  while (n_capped < shape.n_experts && result[n_capped] * factor > kLargestFrequency) {
    rest -= result[n_capped++];
    factor = (shape.n_chosen - kLargestFrequency * n_capped) / rest;
  }
  for (uint32_t r = 0; r < shape.n_experts; ++r) {
    result[r] = r < n_capped ? kLargestFrequency : result[r] * factor;
  }
  return result;
}

RouterSimulation::RouterSimulation(const RouterShape &shape) : shape_(shape) {
  const size_t n = kSamples * shape.n_experts;
  logits_.resize(n);
  noise_.resize(n);
  sigmoids_.resize(n);
  RandomStream random{shape.n_experts, shape.n_chosen};
  for (size_t i = 0; i < n; ++i) {
    logits_[i] = static_cast<float>(kLogitDeviation * random.next_normal());
    noise_[i] = static_cast<float>(kLogitDeviation * random.next_normal());
    sigmoids_[i] = sigmoid(logits_[i]);
  }
  sorted_sigmoids_ = sigmoids_;
  std::sort(sorted_sigmoids_.begin(), sorted_sigmoids_.end());
}

std::vector<uint32_t> RouterSimulation::choose(const float *sigmoids,
                                               const std::vector<float> &biases) const {
  struct Candidate {
    float score;
    uint32_t expert;
  };
  std::vector<Candidate> candidates(shape_.n_experts);
  for (uint32_t e = 0; e < shape_.n_experts; ++e) candidates[e] = {sigmoids[e] + biases[e], e};
  const auto end = candidates.begin() + shape_.n_chosen;
  std::nth_element(candidates.begin(), end - 1, candidates.end(),
                   [](const Candidate &a, const Candidate &b) {
                     return a.score > b.score || (a.score == b.score && a.expert < b.expert);
                   });
  std::vector<uint32_t> chosen;
  for (auto it = candidates.begin(); it != end; ++it) chosen.push_back(it->expert);
  return chosen;
}

std::vector<double> RouterSimulation::frequencies(const std::vector<float> &biases) const {
  std::vector<double> result(shape_.n_experts, 0.0);
  for (size_t s = 0; s < kSamples; ++s) {
    for (const uint32_t e : choose(&sigmoids_[s * shape_.n_experts], biases)) result[e] += 1.0;
  }
  for (double &share : result) share /= kSamples;
  return result;
}

double RouterSimulation::repeat(const std::vector<float> &biases, double correlation) const {
  const auto own = static_cast<float>(std::sqrt(std::max(0.0, 1.0 - correlation * correlation)));
  const auto shared = static_cast<float>(correlation);
  std::vector<float> next(shape_.n_experts);
  size_t n_common = 0;
  for (size_t s = 0; s < kSamples; ++s) {
    const size_t first = s * shape_.n_experts;
    for (size_t e = 0; e < next.size(); ++e) {
      next[e] = sigmoid(shared * logits_[first + e] + own * noise_[first + e]);
    }
    n_common += count_common(choose(&sigmoids_[first], biases), choose(next.data(), biases));
  }
  return static_cast<double>(n_common) / static_cast<double>(kSamples * shape_.n_chosen);
}

// An expert whose sigmoid passes a fixed threshold 0 with probability `level`.
std::vector<float> RouterSimulation::biases_at(const std::vector<double> &levels) const {
  std::vector<float> biases;
  biases.reserve(levels.size());
  const auto last = static_cast<double>(sorted_sigmoids_.size() - 1);
  for (const double level : levels) {
    biases.push_back(-sorted_sigmoids_[static_cast<size_t>((1.0 - level) * last)]);
  }
  return biases;
}

// With many experts the threshold is nearly the same for all tokens, so levels equal to the
// frequencies are a good start; with few they are corrected by what is measured.
std::vector<float> RouterSimulation::find_biases(const std::vector<double> &wanted) const {
  std::vector<double> levels = wanted;
  const bool is_even = *std::min_element(wanted.begin(), wanted.end()) ==
                       *std::max_element(wanted.begin(), wanted.end());
  for (int round = 0; round < kBiasRounds && !is_even; ++round) {
    const std::vector<double> found = frequencies(biases_at(levels));
    for (size_t e = 0; e < levels.size(); ++e) {
      const double step = std::clamp(odds(wanted[e]) / odds(found[e]), 0.7, 1.4);
      const double corrected = odds(levels[e]) * step;
      levels[e] = corrected / (1.0 + corrected);
    }
  }
  return biases_at(levels);
}

RoutingDesign design_routing(const RouterShape &shape, double skew, double repeat) {
  const RouterSimulation simulation(shape);
  RoutingDesign design;
  design.biases = simulation.find_biases(target_frequencies(shape, skew));
  const double least = simulation.repeat(design.biases, 0.0);
  const double offered = std::ceil(least / kRepeatStep) * kRepeatStep;
  if (repeat < least) {
    throw_error(
        StatusCode::kArgument,
        "repeat is %g (0.4 unless given); with %u of %u experts and skew %g two tokens have "
        "%.3f of their experts in common by chance: give a repeat of %.3f..1",
        repeat, shape.n_chosen, shape.n_experts, skew, least, offered);
  }
  double low = 0.0, high = 1.0;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = 0.5 * (low + high);
    (simulation.repeat(design.biases, middle) < repeat ? low : high) = middle;
  }
  design.correlation = high;
  return design;
}

}  // namespace colibri

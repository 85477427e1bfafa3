// SPDX-License-Identifier: Apache-2.0
//
// A simulated router: which biases make experts popular with a chosen skew, and how alike two
// tokens must be so that they have a chosen share of their experts in common. The router is that of
// the models: the K largest of sigmoid(logit) + bias. Its logits are normal with deviation
// kLogitDeviation, independent between experts, which is what random weights give.

#pragma once

#include <cstdint>
#include <vector>

namespace colibri {

constexpr double kLogitDeviation = 1.0;
// An expert that every token uses would need a bias without bound, so no frequency is larger.
constexpr double kLargestFrequency = 0.95;

struct RouterShape {
  uint32_t n_experts = 0;
  uint32_t n_chosen = 0;  // K; at most kLargestFrequency * n_experts
};

// Share of tokens that use the r-th most used expert, r from 0: falls as (r + 1)^-skew below
// kLargestFrequency; the sum is K.
std::vector<double> target_frequencies(const RouterShape &shape, double skew);

class RouterSimulation {
 public:
  explicit RouterSimulation(const RouterShape &shape);

  // Shares of tokens that use each expert.
  std::vector<double> frequencies(const std::vector<float> &biases) const;
  // Mean share of experts that two tokens have in common whose logits have this correlation, 0..1.
  double repeat(const std::vector<float> &biases, double correlation) const;

  // Biases that give these frequencies, in the same order; equal for equal frequencies.
  std::vector<float> find_biases(const std::vector<double> &frequencies) const;

 private:
  std::vector<uint32_t> choose(const float *sigmoids, const std::vector<float> &biases) const;
  std::vector<float> biases_at(const std::vector<double> &levels) const;

  RouterShape shape_;
  // [kSamples][E]: logits of tokens, what the tokens after them have of their own, and the sigmoids
  // of the former.
  std::vector<float> logits_, noise_, sigmoids_;
  std::vector<float> sorted_sigmoids_;
};

struct RoutingDesign {
  std::vector<float> biases;  // of the r-th most used expert
  double correlation = 0;     // of the logits of two tokens of a topic
};

// Throws Error(kArgument) if `repeat` is less than what two unlike tokens have in common; the
// message has the smallest number that can be had.
RoutingDesign design_routing(const RouterShape &shape, double skew, double repeat);

}  // namespace colibri

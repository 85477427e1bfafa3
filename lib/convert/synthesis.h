// SPDX-License-Identifier: Apache-2.0
//
// A packed snapshot of random weights with the layer shape of a published model, for measuring a
// machine. The weights say nothing; their bytes and the routing behave as those of a model:
//
// Tokens belong to topics. An embedding is a mix of its topic's direction and one of its own; the
// head prefers tokens of the same topic; layers add little. So a greedy sequence stays in its topic
// and the hidden states of consecutive tokens are alike to a chosen degree, which is set so that
// the share of experts that two consecutive tokens have in common is `repeat`. The router's bias
// makes experts popular unevenly: the frequency of the r-th most used expert of a layer falls as
// r^-skew, but no expert is used by more than 95 % of all tokens. Both are found by simulation of
// the same router before weights are written.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace colibri {

struct SynthesisOptions {
  std::string shape;      // a name of synthesis_shapes()
  uint32_t n_layers = 0;  // 1..1000
  double skew = 0.0;      // 0..2
  // 0..1, share of experts; not below what chance and skew give by themselves. It holds on average:
  // a topic in one layer differs by about 0.1, so a sequence by less the more layers there are.
  double repeat = 0.4;
  uint64_t seed = 1;  // another one: other weights, the same design
  uint32_t n_threads = 1;
  // (done, total) bytes, each counted twice: written, then read back. false stops.
  std::function<bool(uint64_t, uint64_t)> progress;
};

// The same options give the same bytes, whatever n_threads. A call that was interrupted leaves
// DESTINATION.partial, and the same call goes on with it. Throws Error: kArgument for an unknown
// shape or a number outside its range; kCancelled; and as PackedWriter, among them kMismatch for
// a DESTINATION.partial of other options.
void synthesise_snapshot(const std::string &destination, const SynthesisOptions &options);

}  // namespace colibri

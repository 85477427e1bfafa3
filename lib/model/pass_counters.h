// SPDX-License-Identifier: Apache-2.0
//
// PassCounters: what forward passes read and multiply, counted where the operations are made, from
// the layouts of what they touch. Norm weights, router biases and activations are left out: they
// are small or stay in the cache. The routed experts' products are also timed, since they are what
// a prompt is held against.

#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/weight_layout.h"

namespace colibri {

struct PassCounters {
  // Every matrix product that is not a routed expert's: values and scales once, whatever its rows.
  // An embedding row is the panel it lies in.
  uint64_t dense_bytes = 0;
  // Every expert of every layer that some row chose: its three matrices once.
  uint64_t expert_bytes = 0;
  // Keys and values, and index keys, of the positions that each row attends to or scores.
  uint64_t kv_bytes = 0;
  uint64_t n_experts = 0;       // distinct ones, summed over layers
  uint64_t n_expert_rows = 0;   // rows that they were computed for
  uint64_t n_integer_macs = 0;  // multiply-adds of products with int8 activations
  uint64_t n_expert_macs = 0;   // those of them that are routed experts'
  // Wall clock inside Backend::experts(): all products of routed experts, integer or not, and what
  // happens to the intermediate between them. Routing, the quantisation of the input and the sum of
  // the outputs are outside.
  uint64_t expert_ns = 0;

  // A product of n_rows rows with a matrix that is no routed expert's.
  void add_dense(const WeightLayout &layout, uint32_t n_rows, bool uses_integers) noexcept {
    dense_bytes += layout.total_bytes();
    if (uses_integers) n_integer_macs += uint64_t{layout.depth} * layout.columns * n_rows;
  }
  // One of the three products of a routed expert with its n_rows rows.
  void add_expert_matrix(const WeightLayout &layout, uint32_t n_rows, bool uses_integers) noexcept {
    expert_bytes += layout.total_bytes();
    if (!uses_integers) return;
    const uint64_t macs = uint64_t{layout.depth} * layout.columns * n_rows;
    n_integer_macs += macs;
    n_expert_macs += macs;
  }
};

// The sum over all passes of all engines of a model.
class PassTotals {
 public:
  void add(const PassCounters &pass) noexcept;
  // Each number is whole; a pass that ends meanwhile may be in some of them.
  PassCounters read() const noexcept;

 private:
  std::atomic<uint64_t> dense_bytes_{0}, expert_bytes_{0}, kv_bytes_{0}, n_experts_{0},
      n_expert_rows_{0}, n_integer_macs_{0}, n_expert_macs_{0}, expert_ns_{0};
};

}  // namespace colibri

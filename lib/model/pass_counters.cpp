// SPDX-License-Identifier: Apache-2.0
//
// The sum over passes. Counters are independent, so no order between them is promised.

#include "lib/model/pass_counters.h"

namespace colibri {

void PassTotals::add(const PassCounters &pass) noexcept {
  dense_bytes_.fetch_add(pass.dense_bytes, std::memory_order_relaxed);
  expert_bytes_.fetch_add(pass.expert_bytes, std::memory_order_relaxed);
  kv_bytes_.fetch_add(pass.kv_bytes, std::memory_order_relaxed);
  n_experts_.fetch_add(pass.n_experts, std::memory_order_relaxed);
  n_expert_rows_.fetch_add(pass.n_expert_rows, std::memory_order_relaxed);
  n_integer_macs_.fetch_add(pass.n_integer_macs, std::memory_order_relaxed);
  n_expert_macs_.fetch_add(pass.n_expert_macs, std::memory_order_relaxed);
  expert_ns_.fetch_add(pass.expert_ns, std::memory_order_relaxed);
}

PassCounters PassTotals::read() const noexcept {
  PassCounters totals;
  totals.dense_bytes = dense_bytes_.load(std::memory_order_relaxed);
  totals.expert_bytes = expert_bytes_.load(std::memory_order_relaxed);
  totals.kv_bytes = kv_bytes_.load(std::memory_order_relaxed);
  totals.n_experts = n_experts_.load(std::memory_order_relaxed);
  totals.n_expert_rows = n_expert_rows_.load(std::memory_order_relaxed);
  totals.n_integer_macs = n_integer_macs_.load(std::memory_order_relaxed);
  totals.n_expert_macs = n_expert_macs_.load(std::memory_order_relaxed);
  totals.expert_ns = expert_ns_.load(std::memory_order_relaxed);
  return totals;
}

}  // namespace colibri

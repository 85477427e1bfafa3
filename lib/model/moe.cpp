// SPDX-License-Identifier: Apache-2.0
//
// The MoE sub-layer: route, group rows by expert (counting sort), ask for all experts at once,
// compute those that are there while others arrive, sum in ascending expert id. Rows that failed
// before take no part; a row whose expert cannot be read fails here with the rows of its slot
// behind it.

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lib/model/feed_forward.h"
#include "lib/model/pass.h"

namespace colibri {
namespace {

void route(const Pass &pass, uint32_t layer, const LayerWeights &weights) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  const Product products[] = {
      {&weights.router, workspace.router_logits, config.n_experts, true, weights.router_bias},
      {&weights.shared_gate, workspace.shared_logits, 1, true},
  };
  run_products(pass, {workspace.normed, config.width, pass.n_rows(), config.width},
               {products, config.has_shared_gate ? size_t{2} : size_t{1}});
  RouteArgs args;
  args.kind = config.router;
  args.logits = workspace.router_logits;
  args.bias = weights.selection_bias;
  args.n_rows = pass.n_rows();
  args.n_experts = config.n_experts;
  args.top_k = config.n_experts_per_token;
  args.n_groups = config.n_groups;
  args.n_top_groups = config.n_top_groups;
  args.normalises = config.normalises_top_k;
  args.scale = config.routed_scale;
  args.experts = workspace.route_experts;
  args.weights = workspace.route_weights;
  pass.backend.route(args, *workspace.scratch);
  if (pass.observer != nullptr) {
    pass.observer->on_route(layer, pass.rows, workspace.route_experts, workspace.route_weights);
  }
}

// Fills expert_first, expert_rows, expert_outputs and needed_experts; returns the number of needed
// experts.
size_t group_rows_by_expert(const Pass &pass) {
  Workspace &workspace = pass.workspace;
  const uint32_t k = pass.config.n_experts_per_token;
  const uint32_t n_experts = pass.config.n_experts;
  int32_t *first = workspace.expert_first;
  std::fill_n(first, n_experts + 1, 0);
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    if (!pass.row_status[r].is_ok()) continue;
    for (uint32_t rank = 0; rank < k; ++rank) ++first[workspace.route_experts[r * k + rank] + 1];
  }
  size_t n_needed = 0;
  for (uint32_t e = 0; e < n_experts; ++e) {
    if (first[e + 1] > 0) workspace.needed_experts[n_needed++] = static_cast<int32_t>(e);
    first[e + 1] += first[e];
  }
  // Rows are placed in ascending order; first[e] then stands at the end of e's part, and is moved
  // back below.
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    if (!pass.row_status[r].is_ok()) continue;
    for (uint32_t rank = 0; rank < k; ++rank) {
      int32_t &at = first[workspace.route_experts[r * k + rank]];
      workspace.expert_rows[at] = static_cast<int32_t>(r);
      workspace.expert_outputs[at] = static_cast<int32_t>(r * k + rank);
      ++at;
    }
  }
  for (uint32_t e = n_experts; e > 0; --e) first[e] = first[e - 1];
  first[0] = 0;
  return n_needed;
}

// The row and those of its slot behind it fail.
void fail_rows(const Pass &pass, uint32_t failed_row, const Status &status) {
  const ForwardRow &failed = pass.rows[failed_row];
  for (uint32_t r = failed_row; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    if (row.slot != failed.slot || !pass.row_status[r].is_ok()) continue;
    pass.row_status[r] = status;
  }
}

// Group of the input that an expert's products need; 0: floats.
uint32_t input_group(const Pass &pass, const ExpertView &expert) {
  return pass.uses_integers && expert.gate.layout.is_integer() ? expert.gate.layout.group : 0;
}

void count_expert(const Pass &pass, const ExpertTask &task) {
  PassCounters &counters = pass.workspace.counters;
  ++counters.n_experts;
  counters.n_expert_rows += task.n_rows;
  for (const PackedMatrix *matrix : {&task.weights.gate, &task.weights.up, &task.weights.down}) {
    const WeightLayout &layout = matrix->layout;
    counters.add_expert_matrix(layout, task.n_rows, pass.uses_integers && layout.is_integer());
  }
}

void run_timed(const Pass &pass, const ExpertsArgs &args) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  pass.backend.experts(args, *pass.workspace.scratch);
  const auto spent = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start);
  pass.workspace.counters.expert_ns += static_cast<uint64_t>(spent.count());
}

// Computes those of the ready experts whose input has this group size.
void compute_experts(const Pass &pass, std::span<const ExpertCache::Visit::Ready> ready,
                     uint32_t group, QuantisedRows *quantised) {
  const ModelConfig &config = pass.config;
  Workspace &workspace = pass.workspace;
  size_t n_tasks = 0;
  for (const ExpertCache::Visit::Ready &expert : ready) {
    if (!expert.status.is_ok() || input_group(pass, expert.weights) != group) continue;
    const int32_t first = workspace.expert_first[expert.expert];
    ExpertTask &task = workspace.expert_tasks[n_tasks++];
    task.weights = expert.weights;
    task.rows = workspace.expert_rows + first;
    task.outputs = workspace.expert_outputs + first;
    task.n_rows = static_cast<uint32_t>(workspace.expert_first[expert.expert + 1] - first);
    count_expert(pass, task);
  }
  if (n_tasks == 0) return;
  if (group > 0 && quantised->group != group) {
    *quantised =
        quantise_input(pass, {workspace.normed, config.width, pass.n_rows(), config.width}, group);
  }
  ExpertsArgs args;
  args.tasks = {workspace.expert_tasks.data(), n_tasks};
  args.input.x = workspace.normed;
  args.input.x_stride = config.width;
  args.input.n_rows = pass.n_rows();
  args.input.depth = config.width;
  args.input.quantised = *quantised;
  args.uses_integers = group > 0;
  args.activation = config.expert_activation;
  args.out = workspace.expert_out;
  args.out_stride = config.width;
  run_timed(pass, args);
}

void compute_ready(const Pass &pass, std::span<const ExpertCache::Visit::Ready> ready,
                   QuantisedRows *quantised) {
  uint64_t served_groups = 0;
  for (const ExpertCache::Visit::Ready &expert : ready) {
    if (!expert.status.is_ok()) {
      const int32_t first = pass.workspace.expert_first[expert.expert];
      const int32_t last = pass.workspace.expert_first[expert.expert + 1];
      for (int32_t i = first; i < last; ++i) {
        fail_rows(pass, static_cast<uint32_t>(pass.workspace.expert_rows[i]), expert.status);
      }
      continue;
    }
    const uint32_t group = input_group(pass, expert.weights);
    const uint64_t bit = uint64_t{1} << (group / 16);
    if ((served_groups & bit) != 0) continue;
    served_groups |= bit;
    compute_experts(pass, ready, group, quantised);
  }
}

// Expert outputs of failed rows are undefined; zeros keep the rest of the pass free of stray
// values.
void clear_failed_rows(const Pass &pass) {
  const size_t k = pass.config.n_experts_per_token;
  const size_t width = pass.config.width;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    if (pass.row_status[r].is_ok()) continue;
    std::memset(pass.workspace.expert_out + r * k * width, 0, k * width * sizeof(float));
  }
}

}  // namespace

void run_moe(const Pass &pass, uint32_t layer) noexcept {
  const ModelConfig &config = pass.config;
  const LayerWeights &weights = pass.weights.layers[layer];
  Workspace &workspace = pass.workspace;
  route(pass, layer, weights);
  const size_t n_needed = group_rows_by_expert(pass);
  workspace.visit->begin(layer, {workspace.needed_experts, n_needed});
  // The shared experts are computed while the first reads are under way.
  const bool has_shared = config.shared_width > 0;
  if (has_shared) run_gated_mlp(pass, weights, workspace.shared_out);
  QuantisedRows quantised;
  while (true) {
    const std::span<const ExpertCache::Visit::Ready> ready = workspace.visit->next();
    if (ready.empty()) break;
    compute_ready(pass, ready, &quantised);
    workspace.visit->release();
  }
  clear_failed_rows(pass);
  CombineArgs combine;
  combine.x = workspace.hidden;
  combine.x_stride = config.width;
  combine.expert_out = workspace.expert_out;
  combine.weights = workspace.route_weights;
  combine.shared = has_shared ? workspace.shared_out : nullptr;
  combine.shared_stride = config.width;
  combine.shared_logits = config.has_shared_gate ? workspace.shared_logits : nullptr;
  combine.n_rows = pass.n_rows();
  combine.top_k = config.n_experts_per_token;
  combine.width = config.width;
  pass.backend.combine(combine);
}

}  // namespace colibri

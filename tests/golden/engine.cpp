// SPDX-License-Identifier: Apache-2.0
//
// Composition of a model for tests, without planner and C ABI.

#include "tests/golden/engine.h"

#include <algorithm>
#include <stdexcept>

#include "cpu/cpu_features.h"
#include "cpu/kernel_registry.h"

namespace colibri::test {

Engine::Engine(const std::string &path, const EngineOptions &options)
    : Engine(Snapshot::open(path), options) {}

Engine::Engine(Snapshot snapshot, const EngineOptions &options)
    : snapshot_(std::move(snapshot)), options_(options) {
  load(options);
}

uint64_t Engine::largest_expert_bytes() const {
  return ExpertCache::largest_packed_expert_bytes(snapshot_.sources());
}

void Engine::load(const EngineOptions &options) {
  threads_ = std::make_unique<ThreadPool>(options.n_threads);
  backend_ = cpu::make_cpu_backend(*threads_, options.kernel_set);
  ExpertCacheOptions cache_options;
  cache_options.budget_bytes = options.expert_budget_bytes > 0
                                   ? options.expert_budget_bytes
                                   : ExpertCache::all_packed_experts_bytes(snapshot_.sources());
  cache_ = std::make_unique<ExpertCache>(snapshot_, cache_options);
  ModelOptions model_options;
  model_options.activations = options.activations;
  model_options.latent_norm_eps = options.latent_norm_eps;
  model_ =
      Model::load(snapshot_, *backend_, *threads_, cache_.get(),
                  {options.capacity, options.max_rows, options.kv_type}, model_options, nullptr);
  workspace_ = model_->make_workspace(options.max_rows, options.max_rows);
  slot_ = Buffer(model_->kv_layout().slot_bytes(), "a test's slot");
}

std::vector<float> Engine::run(const std::vector<int32_t> &tokens, uint32_t position,
                               uint32_t chunk, ForwardObserver *observer) {
  const size_t step = chunk == 0 ? options_.max_rows : chunk;
  const size_t vocabulary = config().vocabulary_size;
  std::vector<float> logits;
  for (size_t first = 0; first < tokens.size(); first += step) {
    const size_t n = std::min(step, tokens.size() - first);
    std::vector<ForwardRow> rows(n);
    std::vector<Status> status(n);
    for (size_t i = 0; i < n; ++i) {
      rows[i].token = tokens[first + i];
      rows[i].position = position + static_cast<uint32_t>(first + i);
      rows[i].slot = slot();
      rows[i].logits_row = static_cast<int32_t>(i);
    }
    model_->forward(rows, *workspace_, status, observer);
    for (const Status &row : status) throw_if_failed(row);
    const float *out = model_->logits(*workspace_, 0);
    logits.insert(logits.end(), out, out + n * vocabulary);
  }
  return logits;
}

std::vector<int32_t> Engine::generate(const std::vector<int32_t> &prompt, size_t n_tokens) {
  const size_t vocabulary = config().vocabulary_size;
  std::vector<float> logits = run(prompt, 0, 0);
  std::vector<int32_t> output;
  auto position = static_cast<uint32_t>(prompt.size());
  while (true) {
    const auto last = logits.end() - static_cast<std::ptrdiff_t>(vocabulary);
    output.push_back(static_cast<int32_t>(std::max_element(last, logits.end()) - last));
    if (output.size() == n_tokens) return output;
    logits = run({output.back()}, position++, 1);
  }
}

std::vector<std::string> runnable_kernel_sets() {
  const uint32_t features = cpu::detect_cpu_features();
  std::vector<std::string> names;
  for (const cpu::KernelRow &row : cpu::kernel_rows()) {
    const bool is_new = names.empty() || names.back() != row.name;
    if (is_new && (row.needed_features & ~features) == 0) names.emplace_back(row.name);
  }
  return names;
}

}  // namespace colibri::test

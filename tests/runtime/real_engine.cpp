// SPDX-License-Identifier: Apache-2.0

#include "tests/runtime/real_engine.h"

#include <algorithm>

namespace colibri::test {
namespace {

constexpr uint32_t kMaxRows = 64;

EngineOptions make_engine_options(uint32_t capacity, ActivationMode activations,
                                  uint32_t n_threads) {
  EngineOptions options;
  options.capacity = capacity;
  options.activations = activations;
  options.n_threads = n_threads;
  options.max_rows = 1;  // its own workspace is not used
  options.latent_norm_eps = 0;
  return options;
}

}  // namespace

std::string golden_path(const std::string &name) {
  return std::string(COLIBRI_TEST_DATA) + "/" + name;
}

std::string example_path(const std::string &name) {
  return std::string(COLIBRI_TEST_DATA) + "/../../../examples/models/" + name;
}

RealEngine::RealEngine(const std::string &path, uint32_t n_slots, uint32_t capacity,
                       ActivationMode activations, uint32_t n_threads)
    : engine(path, make_engine_options(capacity, activations, n_threads)),
      pool(engine.model().kv_layout(), n_slots),
      batch(engine.model(), kMaxRows, kMaxRows) {}

std::vector<float> RealEngine::feed(KvSlot &slot, const std::vector<int32_t> &tokens,
                                    uint32_t chunk) {
  std::vector<float> logits;
  const size_t step = chunk == 0 ? kMaxRows : chunk;
  for (size_t first = 0; first < tokens.size(); first += step) {
    const size_t n = std::min(step, tokens.size() - first);
    batch.clear();
    throw_if_failed(
        batch.add(slot, std::span(tokens).subspan(first, n), LogitsMode::kAll, nullptr));
    throw_if_failed(batch.decode());
    const std::vector<float> part = read_logits(batch, vocabulary_size());
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return logits;
}

std::vector<float> read_logits(const Batch &batch, uint32_t vocabulary_size) {
  std::vector<float> logits;
  for (uint32_t row = 0; row < batch.n_rows(); ++row) {
    const float *values = batch.logits(row);
    if (values != nullptr) logits.insert(logits.end(), values, values + vocabulary_size);
  }
  return logits;
}

}  // namespace colibri::test

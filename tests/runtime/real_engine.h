// SPDX-License-Identifier: Apache-2.0
//
// A real snapshot with a pool of slots, for tests of the runtime over the whole engine.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/runtime/batch.h"
#include "tests/golden/engine.h"

namespace colibri::test {

// Folder of a model by name: a case of tests/golden/data, or one of examples/models.
std::string golden_path(const std::string &name);
std::string example_path(const std::string &name);

struct RealEngine {
  RealEngine(const std::string &path, uint32_t n_slots, uint32_t capacity,
             ActivationMode activations, uint32_t n_threads = 2);

  uint32_t vocabulary_size() const { return engine.config().vocabulary_size; }
  // Feeds tokens to an empty slot in chunks and returns the logits of every position.
  std::vector<float> feed(KvSlot &slot, const std::vector<int32_t> &tokens, uint32_t chunk);

  Engine engine;
  KvPool pool;
  Batch batch;
};

// Logits of all rows of a decoded batch that asked for them, in order of rows.
std::vector<float> read_logits(const Batch &batch, uint32_t vocabulary_size);

}  // namespace colibri::test

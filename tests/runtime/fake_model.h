// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for the model behind the interface of lib/model/model.h, linked in its place: what a
// row computes is a chain of hashes through the slot's KV entries, so a wrong or stale entry shows
// in every later logit. It can fail rows, spoil logits and hold a pass, which a real model does not
// do on demand.

#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "lib/model/model.h"
#include "lib/runtime/kv_pool.h"

namespace colibri::test {

// Set while no pass runs.
struct FakeControls {
  int32_t failing_token = -1;         // rows of this token fail with kIo
  bool forgets_failures = false;      // rows behind a failed one succeed, which a model never does
  int32_t spoiled_token = -1;         // logits of rows of this token are NaN
  std::vector<int32_t> script;        // not empty: position p is followed by script[p % size]
  std::function<void()> on_pass;      // called at the start of each pass
  std::vector<ForwardRow> last_rows;  // of the last pass
  uint32_t n_passes = 0;
};
FakeControls &fake_controls();

ModelConfig make_fake_config(uint32_t vocabulary_size);

// A fake model of `vocabulary_size` and a pool of slots of `capacity`. Resets the controls.
struct FakeEngine {
  FakeEngine(uint32_t n_slots, uint32_t capacity, uint32_t vocabulary_size = 64);
  std::unique_ptr<Model> model;
  KvPool pool;
};

}  // namespace colibri::test

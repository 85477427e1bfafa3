// SPDX-License-Identifier: Apache-2.0
//
// DenseWeights: everything of a model that is not a routed expert, packed, in one buffer.
//
// kv_b_proj is not kept as one matrix. Attention always runs in the absorbed form, which needs per
// head the key part transposed (latent outputs, nope inputs) and the value part as it is (value
// outputs, latent inputs). The transposed part cannot keep integer or FP8 scales, which run along
// the other axis, so it is stored as float of the width that is exact: BF16 or F16 if the
// checkpoint has that, else F32. A packed snapshot may have the halves in any format.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/parallel.h"
#include "lib/base/weight_layout.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

struct LayerWeights {
  const float *input_norm = nullptr, *attention_norm = nullptr;
  PackedMatrix query_a, query_b, kv_a, output;
  PackedMatrix query, key, value;  // grouped; query: also latent attention without a query latent
  const float *query_bias = nullptr, *key_bias = nullptr, *value_bias = nullptr;
  const float *output_bias = nullptr;
  const float *query_norm = nullptr, *key_norm = nullptr;
  const float *sinks = nullptr;
  const float *query_a_norm = nullptr, *kv_a_norm = nullptr;
  std::vector<PackedMatrix> key_up;    // per head: [kv_latent columns, nope depth]
  std::vector<PackedMatrix> value_up;  // per head: [value columns, kv_latent depth]
  PackedMatrix index_query, index_key, index_weights;
  const float *index_key_norm = nullptr, *index_key_norm_bias = nullptr;
  PackedMatrix dense_gate, dense_up,
      dense_down;            // dense MLP, or the shared experts; empty if neither
  PackedMatrix shared_gate;  // one column
  PackedMatrix router;
  const float *router_bias = nullptr;     // added to the logits
  const float *selection_bias = nullptr;  // decides the choice alone
};

class DenseWeights {
 public:
  // Bytes of the buffer, from the snapshot's headers alone.
  static uint64_t bytes(const Snapshot &snapshot);

  DenseWeights() = default;
  // Reads and packs everything. `progress(done, total)` in bytes of the buffer, on this thread;
  // false stops with Error(kCancelled). Throws Error: kIo, kMemory. Beside the buffer it needs
  // kLoadSliceBytes of staging per thread, and float copies of one kv_b_proj per thread; packed
  // tensors are read to their place and need neither.
  void load(const Snapshot &snapshot, ThreadPool &threads,
            const std::function<bool(uint64_t, uint64_t)> &progress);

  PackedMatrix embedding, head;
  const float *final_norm = nullptr;
  std::vector<LayerWeights> layers;

  static constexpr uint64_t kLoadSliceBytes = 8u << 20;

 private:
  Buffer memory_;
};

}  // namespace colibri

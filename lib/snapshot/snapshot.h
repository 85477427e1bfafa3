// SPDX-License-Identifier: Apache-2.0
//
// Snapshot: a model folder, opened and checked. After open() succeeds no later call fails because
// of the form of a file; reads can still fail (kIo). Which tensors a model needs is decided in
// model_tensors.cpp, one table for the loader, the planner and `inspect`.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/snapshot/family.h"
#include "lib/snapshot/model_config.h"
#include "lib/snapshot/snapshot_files.h"
#include "lib/snapshot/tensor_index.h"
#include "lib/snapshot/weight_source.h"

namespace colibri {

// One routed expert: matrices, and biases where the family has them, that always move together.
// Stored on their own, as parts of tensors that hold all experts of a layer (their names are then
// those of the tensors, their spans those of this expert's part), or packed.
struct ExpertSource {
  WeightSource gate;                // [F, D]
  WeightSource up;                  // [F, D]; where gate and up alternate, of the same span as gate
  WeightSource down;                // [D, F]
  WeightSource gate_bias, up_bias;  // [F] or absent
  WeightSource down_bias;           // [D] or absent
  // Packed: the whole tensor in which they stand one after another, a multiple of
  // kPackedAlignment bytes. Else absent.
  TensorSpan slab;
};

// kv_b_proj as absorbed attention multiplies with it, packed: head after head, the key half
// transposed, then the value half.
struct KvHeadsSource {
  std::string name;
  uint32_t n_heads = 0;
  WeightLayout key_up;    // of each head: kv_latent columns, nope_width depth
  WeightLayout value_up;  // of each head: value_width columns, kv_latent depth
  TensorSpan values;      // of all heads, without the padding of the tensor
  bool is_present() const noexcept { return values.bytes != 0; }
};

// Every tensor of one layer. Fields that do not apply to the layer's kind are not present and have
// an empty name.
struct LayerSources {
  WeightSource input_norm;      // [D]
  WeightSource attention_norm;  // [D], post_attention_layernorm

  // Latent attention: two matrices and a norm, or, without a query latent, `query` alone.
  WeightSource query_a;       // [q_latent, D]
  WeightSource query_a_norm;  // [q_latent]
  WeightSource query_b;       // [H*(nope+rope), q_latent]
  WeightSource kv_a;          // [kv_latent+rope, D]
  WeightSource kv_a_norm;     // [kv_latent]
  WeightSource kv_b;          // [H*(nope+value), kv_latent]; or, in its place:
  KvHeadsSource kv_heads;
  WeightSource output;  // [D, H*value], or [D, H*head_width]

  // Grouped attention. `query` is also the one query matrix of latent attention.
  WeightSource query;                             // [H*head_width, D]
  WeightSource key, value;                        // [Hkv*head_width, D]
  WeightSource query_bias, key_bias, value_bias;  // of these rows
  WeightSource output_bias;                       // [D]
  WeightSource query_norm, key_norm;              // [head_width], or of all heads
  WeightSource sinks;                             // [H]

  WeightSource index_query;          // [index_heads*index_width, q_latent], wq_b
  WeightSource index_key;            // [index_width, D], wk
  WeightSource index_weights;        // [index_heads, D], weights_proj
  WeightSource index_key_norm;       // [index_width]
  WeightSource index_key_norm_bias;  // [index_width]

  // The dense MLP, or the shared experts of a MoE layer.
  WeightSource dense_gate;  // [width, D]
  WeightSource dense_up;    // [width, D]
  WeightSource dense_down;  // [D, width]

  WeightSource shared_gate;           // [1, D], always plain
  WeightSource router;                // [E, D], always plain
  WeightSource router_bias;           // [E], added to the logits
  WeightSource selection_bias;        // [E], decides which experts are chosen and nothing else
  std::vector<ExpertSource> experts;  // E of them in a MoE layer
};

struct ModelSources {
  const NameTable *names = nullptr;  // the spelling that this snapshot has; static storage
  WeightSource embedding;            // [V, D]
  WeightSource final_norm;           // [D]
  WeightSource head;                 // [V, D]; the embedding itself if tied
  std::vector<LayerSources> layers;
  // Present in the files, but not needed: the MTP layer, indexers of shared layers, ...
  std::vector<std::string> ignored_tensors;
};

struct FormatCount {
  uint64_t n_tensors = 0;
  uint64_t bytes = 0;
};

class Snapshot {
 public:
  // See TensorIndex::open for `path`. Reads config.json, generation_config.json and
  // tokenizer_config.json, resolves every tensor. Before anything else it counts tensors per layer:
  // missing layer ranges or experts are one Error(kIncomplete) that names ranges, first absent
  // tensor and shards found. Allocates little.
  static Snapshot open(const std::string &path, LinkPolicy links = LinkPolicy::kFollow);

  const ModelConfig &config() const noexcept { return config_; }
  const TensorIndex &index() const noexcept { return index_; }
  const ModelSources &sources() const noexcept { return sources_; }
  const std::string &directory() const noexcept { return index_.directory(); }
  // Union over config.json, generation_config.json (number or list) and tokenizer_config.json
  // (eos_token, looked up by the tokenizer's owner: see stop_token_texts()), ascending.
  const std::vector<int64_t> &stop_ids() const noexcept { return stop_ids_; }
  // eos_token texts of tokenizer_config.json that need a tokenizer to become ids.
  const std::vector<std::string> &stop_token_texts() const noexcept { return stop_token_texts_; }
  // describe_format() to number and bytes of all matrices and vectors that the model uses; the
  // padding of packed tensors is not counted.
  std::map<std::string, FormatCount> format_histogram() const;
  // config.json as parsed, for reports.
  const JsonDocument &config_document() const noexcept { return config_document_; }
  // Warnings for the host's log, e.g. per-row 4-bit experts (coarse scales).
  const std::vector<std::string> &warnings() const noexcept { return warnings_; }
  // Stored bytes of the largest and of all routed experts.
  uint64_t largest_expert_bytes() const noexcept { return largest_expert_bytes_; }
  uint64_t all_experts_bytes() const noexcept { return all_experts_bytes_; }

 private:
  Snapshot(TensorIndex index, JsonDocument document) noexcept;
  void collect_stops();
  void measure_experts();

  TensorIndex index_;
  JsonDocument config_document_;
  ModelConfig config_;
  ModelSources sources_;
  std::vector<int64_t> stop_ids_;
  std::vector<std::string> stop_token_texts_;
  std::vector<std::string> warnings_;
  uint64_t largest_expert_bytes_ = 0;
  uint64_t all_experts_bytes_ = 0;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// One list of sizes serves planning and allocation: assign() runs over a null base to count and
// over the real one to set the pointers.

#include "lib/model/workspace.h"

#include <algorithm>

#include "lib/base/checked_math.h"

namespace colibri {
namespace {

constexpr uint64_t kPlaceAlignment = 64;

// Widest row that any product quantises: a whole activation row, or all heads' contexts or queries
// side by side (a packed snapshot may have integer key halves).
uint64_t widest_attention_input(const ModelConfig &config) {
  const uint64_t h = config.n_heads;
  if (config.attention == AttentionKind::kGrouped) return padded_depth(h * config.head_width);
  return std::max({padded_depth(config.query_latent), h * padded_depth(config.kv_latent),
                   h * padded_depth(config.nope_width), padded_depth(h * config.value_width)});
}

uint64_t widest_input(const ModelConfig &config) {
  return std::max({padded_depth(config.width), padded_depth(config.dense_width),
                   padded_depth(config.shared_width), widest_attention_input(config)});
}

uint64_t feed_forward_width(const ModelConfig &config) {
  return std::max<uint64_t>(config.dense_width, config.shared_width);
}

}  // namespace

class Workspace::Places {
 public:
  explicit Places(uint8_t *base) : base_(base) {}

  template <typename T>
  void place(T **target, uint64_t rows, uint64_t width) {
    if (base_ != nullptr) *target = reinterpret_cast<T *>(base_ + bytes_);
    const uint64_t bytes =
        checked_multiply(checked_multiply(rows, width, "workspace"), sizeof(T), "workspace");
    bytes_ =
        checked_add(bytes_, checked_align_up(bytes, kPlaceAlignment, "workspace"), "workspace");
  }
  uint64_t bytes() const { return bytes_; }

 private:
  uint8_t *base_;
  uint64_t bytes_ = 0;
};

void Workspace::assign_attention(const ModelConfig &config, Places *places) {
  const uint64_t r = shape.max_rows;
  const uint64_t h = config.n_heads;
  places->place(&query, r, h * config.query_head_width());
  if (config.attention == AttentionKind::kGrouped) {
    places->place(&key, r, uint64_t{config.n_kv_heads} * config.head_width);
    places->place(&value, r, uint64_t{config.n_kv_heads} * config.head_width);
    places->place(&context, r, h * config.head_width);
    return;
  }
  const uint64_t key_width = config.kv_latent + config.rotary.width;
  places->place(&query_latent, r, config.query_latent);
  places->place(&kv_raw, r, key_width);
  places->place(&absorbed_query, r, h * key_width);
  places->place(&context, r, h * config.kv_latent);
  places->place(&head_values, r, h * config.value_width);
}

void Workspace::assign(const ModelConfig &config, Places *places) {
  const uint64_t r = shape.max_rows;
  places->place(&hidden, r, config.width);
  places->place(&normed, r, config.width);
  places->place(&projected, r, config.width);
  assign_attention(config, places);
  if (config.index_top_k > 0) {
    places->place(&index_query, r, uint64_t{config.index_heads} * config.index_width);
    places->place(&index_key, r, config.index_width);
    places->place(&index_weights, r, config.index_heads);
    if (shape.capacity > config.index_top_k) {
      places->place(&index_scores, std::min<uint64_t>(kScoreRows, r), shape.capacity);
      places->place(&selected, r, config.index_top_k);
    }
  }
  places->place(&gate, r, feed_forward_width(config));
  places->place(&up, r, feed_forward_width(config));
  places->place(&shared_out, r, config.width);
  places->place(&router_logits, r, config.n_experts);
  places->place(&route_weights, r, config.n_experts_per_token);
  places->place(&route_experts, r, config.n_experts_per_token);
  if (config.has_shared_gate) places->place(&shared_logits, r, 1);
  places->place(&expert_out, r * config.n_experts_per_token, config.width);
  places->place(&expert_first, 1, uint64_t{config.n_experts} + 1);
  places->place(&expert_rows, r, config.n_experts_per_token);
  places->place(&expert_outputs, r, config.n_experts_per_token);
  places->place(&needed_experts, 1, config.n_experts);
  places->place(&cosines, r, config.rotary.width / 2);
  places->place(&sines, r, config.rotary.width / 2);
  places->place(&token_ids, r, 1);
  const uint64_t widest = widest_input(config);
  const uint64_t groups = divide_up(widest, shape.smallest_group) + config.n_heads;
  places->place(&quantised, r, widest);
  places->place(&quantised_scales, r, groups);
  places->place(&quantised_sums, r, groups);
  places->place(&head_input, shape.max_logits_rows, config.width);
  places->place(&head_normed, shape.max_logits_rows, config.width);
  places->place(&logits, shape.max_logits_rows, config.vocabulary_size);
}

uint64_t Workspace::bytes(const ModelConfig &config, const WorkspaceShape &shape) {
  Workspace unplaced;
  unplaced.shape = shape;
  Places counted(nullptr);
  unplaced.assign(config, &counted);
  const uint64_t lists = shape.max_rows * (sizeof(AttentionRow) + sizeof(void *)) +
                         kScoreRows * sizeof(IndexRow) +
                         std::max<uint64_t>(config.n_heads, 8) * sizeof(LinearTask) +
                         config.n_experts * sizeof(ExpertTask);
  return checked_add(counted.bytes(), lists, "workspace");
}

Workspace::Workspace(const ModelConfig &config, const WorkspaceShape &shape_in, ExpertCache *cache,
                     std::unique_ptr<Backend::Scratch> scratch_in)
    : shape(shape_in), scratch(std::move(scratch_in)) {
  Places counted(nullptr);
  assign(config, &counted);
  memory_ = Buffer(counted.bytes(), "workspace");
  Places placed(memory_.data());
  assign(config, &placed);
  attention_rows.resize(shape.max_rows);
  store_places.resize(shape.max_rows);
  index_rows.resize(kScoreRows);
  linear_tasks.resize(std::max<size_t>(config.n_heads, 8));
  expert_tasks.resize(config.n_experts);
  if (cache != nullptr) visit = std::make_unique<ExpertCache::Visit>(*cache);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// What both kinds of attention share: rotation, keys and values into slots, and the operation over
// what each row sees.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/model/pass.h"

namespace colibri {
namespace {

// First key that a row sees.
uint32_t first_key(const ForwardRow &row, const LayerSpec &spec) {
  const uint32_t n_seen = row.position + 1;
  return spec.window != 0 && n_seen > spec.window ? n_seen - spec.window : 0;
}

}  // namespace

void rotate_heads(const Pass &pass, float *x, size_t row_stride, size_t head_stride,
                  uint32_t n_heads, bool is_interleaved) noexcept {
  RopeArgs args;
  args.x = x;
  args.row_stride = row_stride;
  args.head_stride = head_stride;
  args.n_rows = pass.n_rows();
  args.n_heads = n_heads;
  args.width = pass.config.rotary.width;
  args.is_interleaved = is_interleaved;
  args.cosines = pass.workspace.cosines;
  args.sines = pass.workspace.sines;
  pass.backend.rope(args);
}

void store_rows(const Pass &pass, uint32_t layer, KvPart part, const float *x,
                size_t x_stride) noexcept {
  const KvLayer &kv = pass.kv_layout.layer(layer);
  const bool is_key = part == KvPart::kKeys;
  const size_t width = is_key ? kv.key_width : kv.value_width;
  const size_t head_stride = is_key ? kv.key_head_stride() : kv.value_head_stride();
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    uint8_t *place = is_key ? pass.kv_layout.key_at(row.slot, layer, row.position)
                            : pass.kv_layout.value_at(row.slot, layer, row.position);
    for (uint32_t head = 0; head < kv.n_heads; ++head) {
      std::memcpy(place + head * head_stride * sizeof(float), x + r * x_stride + head * width,
                  width * sizeof(float));
    }
  }
}

void attend(const Pass &pass, uint32_t layer, const LayerSpec &spec,
            const AttendInputs &inputs) noexcept {
  const ModelConfig &config = pass.config;
  const KvLayout &layout = pass.kv_layout;
  const KvLayer &kv = layout.layer(layer);
  Workspace &workspace = pass.workspace;
  const uint32_t group = config.n_heads / kv.n_heads;
  const size_t value_stride = kv.value_width == 0 ? kv.key_width : kv.value_width;
  AttentionArgs args;
  args.rows = {workspace.attention_rows.data(), pass.n_rows()};
  args.query_row_stride = size_t{config.n_heads} * kv.key_width;
  args.query_head_stride = kv.key_width;
  args.key_stride = kv.key_width;
  args.value_stride = value_stride;
  args.n_heads = group;
  args.key_width = kv.key_width;
  args.value_width = inputs.value_width;
  // The width of an unabsorbed query, not the absorbed one.
  args.scale = config.softmax_factor / std::sqrt(static_cast<float>(config.query_head_width()));
  args.out_row_stride = size_t{config.n_heads} * inputs.value_width;
  args.out_head_stride = inputs.value_width;
  for (uint32_t head = 0; head < kv.n_heads; ++head) {
    for (uint32_t r = 0; r < pass.n_rows(); ++r) {
      const ForwardRow &row = pass.rows[r];
      AttentionRow &target = workspace.attention_rows[r];
      const bool is_sparse = uses_selection(pass, row);
      const uint32_t first = is_sparse ? 0 : first_key(row, spec);
      target.keys = reinterpret_cast<const float *>(layout.keys(row.slot, layer)) +
                    head * kv.key_head_stride() + size_t{first} * kv.key_width;
      target.values = kv.value_width == 0
                          ? target.keys
                          : reinterpret_cast<const float *>(layout.values(row.slot, layer)) +
                                head * kv.value_head_stride() + size_t{first} * kv.value_width;
      target.positions = is_sparse ? workspace.selected + size_t{r} * config.index_top_k : nullptr;
      target.n_keys = is_sparse ? config.index_top_k : row.position + 1 - first;
      workspace.counters.kv_bytes +=
          uint64_t{target.n_keys} * (kv.key_width + kv.value_width) * sizeof(float);
    }
    args.queries = inputs.queries + size_t{head} * group * kv.key_width;
    args.out = inputs.out + size_t{head} * group * inputs.value_width;
    pass.backend.attention(args, *workspace.scratch);
  }
}

}  // namespace colibri

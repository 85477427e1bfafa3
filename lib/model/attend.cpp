// SPDX-License-Identifier: Apache-2.0
//
// What both kinds of attention share: rotation, keys and values into slots, and the operation over
// what each row sees.

#include <cmath>

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
  const KvLayout &layout = pass.kv_layout;
  const KvLayer &kv = layout.layer(layer);
  Workspace &workspace = pass.workspace;
  const bool is_key = part == KvPart::kKeys;
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    workspace.store_places[r] = is_key ? layout.key_at(row.slot, layer, row.position)
                                       : layout.value_at(row.slot, layer, row.position);
  }
  StoreArgs args;
  args.x = x;
  args.x_stride = x_stride;
  args.n_rows = pass.n_rows();
  args.n_heads = kv.n_heads;
  args.width = is_key ? kv.key_width : kv.value_width;
  args.type = layout.type();
  args.destinations = {workspace.store_places.data(), pass.n_rows()};
  args.head_stride = is_key ? kv.key_head_stride() : kv.value_head_stride();
  pass.backend.store(args);
}

void attend(const Pass &pass, uint32_t layer, const LayerSpec &spec,
            const AttendInputs &inputs) noexcept {
  const ModelConfig &config = pass.config;
  const KvLayout &layout = pass.kv_layout;
  const KvLayer &kv = layout.layer(layer);
  Workspace &workspace = pass.workspace;
  const bool has_values = kv.value_width != 0;  // else they are the front of the keys
  const uint64_t place_bytes =
      uint64_t{kv.n_heads} * (kv.key_width + kv.value_width) * kv_type_bytes(layout.type());
  for (uint32_t r = 0; r < pass.n_rows(); ++r) {
    const ForwardRow &row = pass.rows[r];
    AttentionRow &target = workspace.attention_rows[r];
    const bool is_sparse = uses_selection(pass, row);
    target.keys = layout.keys(row.slot, layer);
    target.values = layout.values(row.slot, layer);
    target.positions = is_sparse ? workspace.selected + size_t{r} * config.index_top_k : nullptr;
    target.first_key = is_sparse ? 0 : first_key(row, spec);
    target.n_keys = is_sparse ? config.index_top_k : row.position + 1 - target.first_key;
    workspace.counters.kv_bytes += target.n_keys * place_bytes;
  }
  AttentionArgs args;
  args.rows = {workspace.attention_rows.data(), pass.n_rows()};
  args.queries = inputs.queries;
  args.query_row_stride = size_t{config.n_heads} * kv.key_width;
  args.query_head_stride = kv.key_width;
  args.kv_type = layout.type();
  args.key_stride = kv.key_width;
  args.value_stride = has_values ? kv.value_width : kv.key_width;
  args.key_head_stride = kv.n_heads > 1 ? kv.key_head_stride() : 0;
  args.value_head_stride = kv.n_heads > 1 ? kv.value_head_stride() : 0;
  args.ring = kv.ring();
  args.n_heads = config.n_heads;
  args.n_kv_heads = kv.n_heads;
  args.key_width = kv.key_width;
  args.value_width = inputs.value_width;
  // The width of an unabsorbed query, not the absorbed one.
  args.scale = config.softmax_factor / std::sqrt(static_cast<float>(config.query_head_width()));
  args.sinks = inputs.sinks;
  args.out = inputs.out;
  args.out_row_stride = size_t{config.n_heads} * inputs.value_width;
  args.out_head_stride = inputs.value_width;
  pass.backend.attention(args, *workspace.scratch);
}

}  // namespace colibri

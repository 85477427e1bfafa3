// SPDX-License-Identifier: Apache-2.0
//
// Pass: what the sub-layers of one forward pass share. Shape letters as in lib/backend/op_args.h.

#pragma once

#include <cstdint>
#include <span>

#include "lib/backend/backend.h"
#include "lib/model/dense_weights.h"
#include "lib/model/kv_layout.h"
#include "lib/model/layer_spec.h"
#include "lib/model/model.h"
#include "lib/model/rotary.h"
#include "lib/model/workspace.h"
#include "lib/snapshot/model_config.h"

namespace colibri {

struct Pass {
  const ModelConfig &config;
  const DenseWeights &weights;
  const KvLayout &kv_layout;
  Backend &backend;
  Workspace &workspace;
  std::span<const ForwardRow> rows;
  std::span<Status> row_status;
  ForwardObserver *observer = nullptr;
  bool uses_integers = true;
  float latent_norm_eps = 0;

  uint32_t n_rows() const noexcept { return static_cast<uint32_t>(rows.size()); }
};

// Input of several matrix products: n_rows rows of `depth` elements.
struct ProductInput {
  const float *x = nullptr;
  size_t x_stride = 0;
  uint32_t n_rows = 0;
  uint32_t depth = 0;
};

// The input rounded to int8 in groups of `group` depths, in the workspace until the next call.
QuantisedRows quantise_input(const Pass &pass, const ProductInput &input, uint32_t group) noexcept;

struct Product {
  const PackedMatrix *matrix = nullptr;
  float *y = nullptr;
  size_t y_stride = 0;
  bool needs_float = false;     // never with integer activations: routers and indexer weights
  const float *bias = nullptr;  // [columns]
};

// All products of one input. The input is quantised once for each group size that occurs.
void run_products(const Pass &pass, const ProductInput &input,
                  std::span<const Product> products) noexcept;

// y[r][h] = matrices[h] * x[r][h]: one matrix per head. x rows are [H][depth] with head_stride
// between heads, y likewise.
struct HeadProducts {
  std::span<const PackedMatrix> matrices;
  const float *x = nullptr;
  size_t x_row_stride = 0;
  size_t x_head_stride = 0;
  float *y = nullptr;
  size_t y_row_stride = 0;
  size_t y_head_stride = 0;
};
void run_head_products(const Pass &pass, const HeadProducts &products) noexcept;

// What both kinds of attention share (attend.cpp). Rotates the slice of `width` elements at the
// front of every head: x is the first rotated element.
void rotate_heads(const Pass &pass, float *x, size_t row_stride, size_t head_stride,
                  uint32_t n_heads, bool is_interleaved) noexcept;
// Stores rows [R][x_stride] of the layer's heads as keys (or values) of the rows' positions.
enum class KvPart : uint8_t { kKeys, kValues };
void store_rows(const Pass &pass, uint32_t layer, KvPart part, const float *x,
                size_t x_stride) noexcept;
// Fills workspace.attention_rows (window, ring, selection), counts bytes, runs the operation.
struct AttendInputs {
  const float *queries = nullptr;  // [R][H * key width]
  float *out = nullptr;            // [R][H * value_width]
  uint32_t value_width = 0;
  const float *sinks = nullptr;
};
void attend(const Pass &pass, uint32_t layer, const LayerSpec &spec,
            const AttendInputs &inputs) noexcept;

// Sub-layers, in the order of a layer. Each reads and updates workspace.hidden.
void run_latent_attention(const Pass &pass, uint32_t layer, const LayerSpec &spec) noexcept;
void run_grouped_attention(const Pass &pass, uint32_t layer, const LayerSpec &spec) noexcept;
void run_dense_feed_forward(const Pass &pass, uint32_t layer) noexcept;
void run_moe(const Pass &pass, uint32_t layer) noexcept;

// The indexer of a full layer (indexer.cpp): index keys of the rows into their slots, and for rows
// that see more than index_top_k positions the selected ones into workspace.selected. Needs
// workspace.index_query, index_key and index_weights filled.
void run_indexer(const Pass &pass, uint32_t layer) noexcept;
// True if the row attends to a selection instead of to everything it sees.
bool uses_selection(const Pass &pass, const ForwardRow &row) noexcept;

}  // namespace colibri

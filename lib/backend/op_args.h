// SPDX-License-Identifier: Apache-2.0
//
// Arguments of the backend's operations. Shape letters, used everywhere: R rows of the batch, D
// model width, E experts, K experts per token, F expert width, H heads, T tokens in a KV slot, G
// quantisation group, V vocabulary. All strides count elements, not bytes. Arrays are row-major. No
// argument may alias an output unless said. Everything is finite or not as the model makes it: NaN
// and infinity travel through.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lib/base/layer_math.h"
#include "lib/base/weight_layout.h"

namespace colibri {

// Depths of a quantised row in memory: INT4 lines hold 8.
constexpr size_t padded_depth(size_t depth) noexcept {
  return (depth + 7) / 8 * 8;
}

// Rows quantised to int8: per row and group of `group` depths, scale = max|x| / 127, q =
// round-half-even(x * (127 / max|x|)) in -127..127; a group with max|x| 0, or below 3.8e-37 so that
// 127 / max|x| is infinite, has scale 0 and q 0; a group with a non-finite member has scale NaN and
// q 0. Depth is padded with zeros to a multiple of 8 (padded_depth).
struct QuantisedRows {
  int8_t *q = nullptr;      // [n_rows][q_stride]
  float *scales = nullptr;  // [n_rows][group_stride]
  int32_t *sums = nullptr;  // [n_rows][group_stride], sum of q over the group
  size_t q_stride = 0;
  size_t group_stride = 0;
  uint32_t group = 0;  // 0: not quantised
};

// Input rows of a matrix product, in float and, if it is an integer product, quantised as well.
struct ActivationRows {
  const float *x = nullptr;  // [n_rows][x_stride]
  size_t x_stride = 0;
  uint32_t n_rows = 0;
  uint32_t depth = 0;
  QuantisedRows quantised;  // group must equal the matrix's group where used
};

// y[r][c] = sum over depth of W[c][d] * x[r][d].
//   float activations    one chain acc = fma(w, x, acc) from 0, d ascending; w is the dequantised
//                        weight: float(q) * scale rounded to float32
//   integer activations  one chain acc = fma(float(dot), weight_scale * activation_scale, acc)
//                        from 0, groups ascending; dot is the exact integer sum of the group.
//                        MXFP4: of doubled weights, with half the weight scale
// A bias is added to the finished chain, one rounded sum.
struct LinearTask {
  PackedMatrix matrix;
  ActivationRows input;
  float *y = nullptr;  // [n_rows][y_stride]
  size_t y_stride = 0;
  bool uses_integers = false;   // only if matrix.layout.is_integer()
  const float *bias = nullptr;  // [columns]; nullptr: none
};

struct QuantiseArgs {
  const float *x = nullptr;  // [n_rows][x_stride]
  size_t x_stride = 0;
  uint32_t n_rows = 0;
  uint32_t depth = 0;
  QuantisedRows out;  // group set by the caller
};

// y = g * (x * r), r = 1 / sqrt(mean(x^2) + eps). y may be x. The mean is a 16-lane tree sum
// (cpu/kernels.h).
struct NormArgs {
  const float *x = nullptr;
  size_t x_stride = 0;
  float *y = nullptr;
  size_t y_stride = 0;
  uint32_t n_rows = 0;
  uint32_t width = 0;
  const float *weight = nullptr;  // [width]
  const float *bias = nullptr;    // [width]; LayerNorm only
  float eps = 0;
};

// Rotates a slice of `width` elements of every head in place. Element pairs (2i, 2i+1) if
// interleaved, else (i, i + width/2): a' = a*c - b*s, b' = b*c + a*s, each product rounded.
struct RopeArgs {
  float *x = nullptr;  // first rotated element of row 0, head 0
  size_t row_stride = 0;
  size_t head_stride = 0;
  uint32_t n_rows = 0;
  uint32_t n_heads = 0;
  uint32_t width = 0;
  bool is_interleaved = true;
  const float *cosines = nullptr;  // [n_rows][width / 2]
  const float *sines = nullptr;
};

// Copies rows to where slots keep them, in the format of the slot. Rows are n_heads pieces of
// `width` elements side by side; piece h of row r goes to destinations[r] + h * head_stride.
struct StoreArgs {
  const float *x = nullptr;  // [R][x_stride]
  size_t x_stride = 0;
  uint32_t n_rows = 0;
  uint32_t n_heads = 1;
  uint32_t width = 0;
  KvType type = KvType::kF32;           // rounded to nearest even; beyond the largest F16: infinity
  std::span<void *const> destinations;  // [R], of head 0
  size_t head_stride = 0;               // elements
};

// What one batch row attends to in the KV of its slot.
struct AttentionRow {
  const void *keys = nullptr;  // of head 0: place 0
  const void *values = nullptr;
  // n_keys ascending positions; nullptr: first_key .. first_key + n_keys - 1.
  const int32_t *positions = nullptr;
  uint32_t first_key = 0;  // 0 with positions
  uint32_t n_keys = 0;     // >= 1
};

// out[r][h] = sum_s w_s v[s], w_s = exp(z_s - M) / (sum_s exp(z_s - M) + exp(sink_h - M)),
// z_s = scale * q[r][h] . k[s], M the largest of all z and the sink. Query head h has key/value
// head h / (n_heads / n_kv_heads). The order of all sums is fixed by the list of a row's keys alone
// (cpu/kernels.h), never by other rows, tasks or threads. Consecutive rows with the same keys and
// values and no positions are computed together; that is a matter of speed. Places between the
// least and the largest position of such rows may be read, whoever's they are, and have no part in
// the result of a row that does not see them.
struct AttentionArgs {
  std::span<const AttentionRow> rows;
  const float *queries = nullptr;  // [R][query_row_stride], heads at query_head_stride
  size_t query_row_stride = 0;
  size_t query_head_stride = 0;
  KvType kv_type = KvType::kF32;
  size_t key_stride = 0;  // from place to place of one head, in elements of kv_type
  size_t value_stride = 0;
  size_t key_head_stride = 0;  // from key/value head to head; 0 if there is one
  size_t value_head_stride = 0;
  // Places of a layer whose KV is a ring: position p stands in place p % ring. Any number that keeps
  // the positions of all rows of a slot apart. 0: position p stands in place p.
  uint32_t ring = 0;
  uint32_t n_heads = 0;     // H
  uint32_t n_kv_heads = 1;  // divides n_heads
  uint32_t key_width = 0;
  uint32_t value_width = 0;
  float scale = 0;
  const float *sinks = nullptr;  // [H]; nullptr: none
  float *out = nullptr;          // [R][out_row_stride], heads at out_head_stride
  size_t out_row_stride = 0;
  size_t out_head_stride = 0;
};

// Index keys of a slot lie in panels of 16 positions: [ceil(T/16)][width][16].
struct IndexRow {
  const float *key_panels = nullptr;
  uint32_t n_keys = 0;
};

// scores[r][s] = sum_h weights[r][h] * max(dot(q[r][h], k[s]) * scale, 0), h ascending.
struct IndexScoresArgs {
  std::span<const IndexRow> rows;  // n_keys 0: the row is skipped
  const float *queries = nullptr;  // [R][n_heads * width]
  const float *weights = nullptr;  // [R][weights_stride]
  size_t weights_stride = 0;
  uint32_t n_heads = 0;
  uint32_t width = 0;
  float scale = 0;
  float *scores = nullptr;  // [R][score_stride]
  size_t score_stride = 0;
};

// Positions of the top_k largest scores of each row (ties: lower position first; NaN counts as
// lowest), written ascending. Rows with n_keys <= top_k are skipped.
struct SelectArgs {
  std::span<const IndexRow> rows;
  const float *scores = nullptr;
  size_t score_stride = 0;
  uint32_t top_k = 0;
  int32_t *positions = nullptr;  // [R][top_k]
};

// Chooses experts. By kind (layer_math.h) a row has scores, by which experts are chosen, and
// weights. If n_groups > 1, the experts form n_groups equal runs by id; only the n_top_groups with
// the largest sum of their two best scores stay eligible, all others have the score -infinity
// (ties: lower group wins). The top_k best scores are chosen (ties: lower id wins); a NaN loses
// against every number. Weights are then normalised and scaled as the members say. A bias of the
// logits is that of the router's product (LinearTask::bias).
//   kSigmoid          score sigmoid(l) + bias[e], weight sigmoid(l)
//   kSoftmax          score and weight exp(l - m) / s; m the largest logit, s the 16-lane tree sum
//   kSoftmaxOfChosen  score l, weight exp(l - m) / s over the chosen, s summed in ascending id;
//                     `normalises` is not looked at
struct RouteArgs {
  RouterKind kind = RouterKind::kSigmoid;
  const float *logits = nullptr;  // [R][E]
  const float *bias = nullptr;    // [E]; nullptr: none. kSigmoid only
  uint32_t n_rows = 0;
  uint32_t n_experts = 0;
  uint32_t top_k = 0;
  uint32_t n_groups = 1;
  uint32_t n_top_groups = 1;
  bool normalises = true;      // divide by (sum + 1e-20), the sum in ascending expert id
  float scale = 1.0f;          // multiplied last
  int32_t *experts = nullptr;  // [R][K] ascending ids
  float *weights = nullptr;    // [R][K]
};

struct ExpertView {
  PackedMatrix gate, up, down;
  // [F], [F], [D]; nullptr: none. All three or none.
  const float *gate_bias = nullptr, *up_bias = nullptr, *down_bias = nullptr;
};

// One expert and the batch rows that chose it.
struct ExpertTask {
  ExpertView weights;
  const int32_t *rows = nullptr;     // [n_rows] indices into the input rows, ascending
  const int32_t *outputs = nullptr;  // [n_rows] row of `out` for each (index r * K + rank)
  uint32_t n_rows = 0;
};

// For each task and row: out[outputs[i]] = down( act(gate x + gate_bias, up x + up_bias) ) +
// down_bias, each bias one rounded sum behind the chain of the product; the intermediate is
// quantised again if the product is an integer one, with the group of the down matrix. Weights are
// read once for all rows of a task. All experts of a call have the same shapes; their formats and
// the groups of their down matrices may differ.
struct ExpertsArgs {
  std::span<const ExpertTask> tasks;
  // R rows of width D; if uses_integers, quantised with the group of every integer gate and up.
  ActivationRows input;
  bool uses_integers = false;
  Activation activation;
  float *out = nullptr;  // [R * K][D]
  size_t out_stride = 0;
};

// x[r] += (sum over ranks ascending of weights[r][k] * expert_out[r*K + k]) + shared[r]. The sum is
// a chain of fma from 0; shared (may be nullptr) is added to it, then the result to x. With
// shared_logits the shared part enters as fma(sigmoid(shared_logits[r]), shared[r], sum).
struct CombineArgs {
  float *x = nullptr;
  size_t x_stride = 0;
  const float *expert_out = nullptr;  // [R * K][width]
  const float *weights = nullptr;     // [R][K]
  const float *shared = nullptr;      // [R][shared_stride]
  size_t shared_stride = 0;
  const float *shared_logits = nullptr;  // [R]; nullptr: the shared part has the weight 1
  uint32_t n_rows = 0;
  uint32_t top_k = 0;
  uint32_t width = 0;
};

// y = silu(gate) * up, silu(z) = z / (1 + exp(-z)). y may be gate or up.
struct SiluArgs {
  const float *gate = nullptr;
  const float *up = nullptr;
  float *y = nullptr;
  size_t stride = 0;  // of all three
  uint32_t n_rows = 0;
  uint32_t width = 0;
};

// x += y.
struct AddArgs {
  float *x = nullptr;
  size_t x_stride = 0;
  const float *y = nullptr;
  size_t y_stride = 0;
  uint32_t n_rows = 0;
  uint32_t width = 0;
};

// y[r] = dequantised column ids[r] of the matrix: an embedding look-up in a packed [V columns, D
// depth] matrix.
struct EmbedArgs {
  PackedMatrix table;
  const int32_t *ids = nullptr;
  uint32_t n_rows = 0;
  float *y = nullptr;
  size_t y_stride = 0;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Contracts of the CPU kernels and the KernelSet that groups them. Kernel files include only this
// header, <stddef.h>, <stdint.h>, the intrinsics header and headers that are named after their set
// or one below it, because they are compiled with instruction-set flags: an inline function from any
// other header could end up with such instructions in a baseline caller. All functions of such
// headers have internal linkage. The reference is baseline code and may use <math.h>, headers of its
// own set and the functions of lib/base/number_formats.h that are not inline.

#pragma once

#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {

// Common to all contracts
//   Memory   pointers may have any alignment of their element type unless said; nothing is read or
//            written outside the stated shapes.
//   Results  the same bits in every set; the reference (*_ref.cpp) is the definition. A NaN is a
//            NaN: its sign and payload are not part of any contract. The float mode is that of
//            ScopedFloatMode.
//
// Words used below
//   fma(a, b, c)  one rounding.
//   max(a, b)     a > b ? a : b.
//   exp           exp_ref of float_math_ref.cpp, step by step.
//   tree sum      over n values x[i]: lane l (0..15) adds x[l], x[l+16], .. ascending, starting
//                 from 0; then lanes are added pairwise: l with l+8, then l+4, l+2, l+1.

// Panels of 16 columns: lib/base/weight_layout.h.
struct GemmWeights {
  const uint8_t *values;  // panel 0, 64-byte aligned
  size_t panel_bytes;
  const uint8_t *scales;  // panel 0: [group][16] of their type; nullptr for plain formats
  size_t scale_panel_bytes;
  // Bytes from group to group; 0 if one scale serves the whole depth.
  size_t scale_group_bytes;
  bool has_bf16_scales;  // MXFP4: scales are [group][16] bytes whatever this says
  size_t depth;
  size_t group;  // depths per group; 0 for plain formats
};

// y[r][c] for rows 0..n_rows-1 and the columns of panels first_panel .. first_panel + n_panels - 1;
// columns at or above n_columns are not stored. acc = fma(w, x, acc) from 0, depth ascending;
// w = float(q) * scale rounded (plain formats: the widened value).
struct FloatGemmArgs {
  GemmWeights weights;
  size_t first_panel, n_panels, n_columns;
  const float *x;  // row r is x + row(r) * x_stride
  size_t x_stride;
  const int32_t *x_rows;  // row(r) = x_rows[r]; nullptr: row(r) = r
  size_t n_rows;
  float *y;  // row r goes to y + out(r) * y_stride, indexed by column
  size_t y_stride;
  const int32_t *y_rows;  // out(r) = y_rows[r]; nullptr: out(r) = r
};
using FloatGemmFn = void (*)(const FloatGemmArgs &) noexcept;

// The same with int8 activations: groups ascending,
// acc = fma(float(dot), weight_scale * activation_scale, acc) from 0; dot is the exact sum over the
// group of (stored - offset) * q with offset 8 (INT4) or 128 (INT8), which is
// sum(stored * q) - offset * sums[group]. MXFP4: stored is 12 plus twice the value of the code
// (0..24, from a table of 16 bytes), the offset 12, and weight_scale = 2^(byte - 127) * 0.5f,
// rounded.
struct IntGemmArgs {
  GemmWeights weights;
  size_t first_panel, n_panels, n_columns;
  const int8_t *q;  // zero-padded to a multiple of 8 depths
  size_t q_stride;
  const float *scales;  // [row][group]
  const int32_t *sums;
  size_t group_stride;  // of scales and sums
  const int32_t *x_rows;
  size_t n_rows;
  float *y;
  size_t y_stride;
  const int32_t *y_rows;
};
using IntGemmFn = void (*)(const IntGemmArgs &) noexcept;

// One row: per group scale = amax / 127, q = round-half-even(x * (127 / amax)); amax 0 or
// 127 / amax infinite: scale 0, q 0; a non-finite member: scale NaN, q 0, sum 0. q is zero-filled
// up to a multiple of 8 depths.
using QuantiseRowFn = void (*)(const float *x, size_t depth, size_t group, int8_t *q, float *scales,
                               int32_t *sums) noexcept;

// ms = tree sum of x*x (lane step fma(x, x, lane)) / n; r = 1 / sqrt(ms + eps);
// y = weight * (x * r).
using RmsNormRowFn = void (*)(const float *x, const float *weight, float eps, size_t n,
                              float *y) noexcept;
// mu = tree sum / n; var = tree sum of (x-mu)^2 (fma) / n;
// y = fma(weight, (x - mu) * (1 / sqrt(var + eps)), bias).
using LayerNormRowFn = void (*)(const float *x, const float *weight, const float *bias, float eps,
                                size_t n, float *y) noexcept;

// y = (g / (1 + exp(-g))) * u.
using SiluRowFn = void (*)(const float *gate, const float *up, size_t n, float *y) noexcept;
// a = gate > limit ? limit : gate; b = up > limit ? limit : up < -limit ? -limit : up (a NaN
// stays); y = (a / (1 + exp(-(alpha * a)))) * (b + 1).
struct ClampedSwishArgs {
  const float *gate, *up;
  size_t n;
  float limit, alpha;
  float *y;  // may be gate or up
};
using ClampedSwishRowFn = void (*)(const ClampedSwishArgs &) noexcept;
// To BF16 or F16, round to nearest even; a NaN stays a NaN.
using RoundRowFn = void (*)(const float *x, size_t n, uint16_t *y) noexcept;
// y = 1 / (1 + exp(-x)).
using SigmoidRowFn = void (*)(const float *x, size_t n, float *y) noexcept;
// m = max over x from -infinity, NaN passed over; y = exp(x - m); then y = y / tree sum of y.
using SoftmaxRowFn = void (*)(const float *x, size_t n, float *y) noexcept;
// x += y.
using AddRowFn = void (*)(float *x, const float *y, size_t n) noexcept;
// x += (chain over k ascending of fma(weights[k], out[k*out_stride + i], acc) from 0), joined with
// shared (nullptr: none): acc + shared, or fma(*shared_weight, shared, acc) if that is not nullptr.
struct CombineRowArgs {
  float *x;
  const float *out;
  size_t out_stride;
  const float *weights;
  size_t top_k;
  const float *shared;
  const float *shared_weight;
  size_t n;
};
using CombineRowFn = void (*)(const CombineRowArgs &) noexcept;

// Keys of attention are counted by their number: the position of a key, or its index where a row
// has a list of positions. Numbers are cut into blocks and spans at multiples of these lengths,
// counted from number 0, so a cut depends on nothing but the number. A row sees the numbers
// [first, end); a block or span takes part in a row with the numbers that the row sees, and not at
// all if there are none.
constexpr size_t kAttentionBlock = 64;
constexpr size_t kAttentionSpan = 512;  // a multiple of kAttentionBlock
// Query vectors of one call: a call reads and transposes each key once for all of them.
constexpr size_t kMaxAttentionQueries = 128;

// One query head of one batch row.
struct AttentionQuery {
  const float *query;   // [key_width]
  uint32_t first, end;  // numbers that it sees
  // Result for one span: out[value_width] = o, numbers[0] = m, numbers[1] = l. Untouched if the
  // span has no key that the query sees.
  float *out;
  float *numbers;
};

// Some query vectors over one span of one key/value head. Numbers below the least `first` and from
// the largest `end` on are not read. For each query, per block of the span, ascending, over the
// numbers k that it sees, ascending:
//   s[k]    = scale * (chain over width of fma(q, key, acc) from 0)
//   m_b     = max over the block's s from -infinity, NaN passed over
//   p[k]    = exp(s[k] - m_b)
//   l_b     = tree sum of p, where lane k % 16 takes p[k]; numbers not seen add nothing
//   o_b[c]  = chain over k of fma(p[k], v[k][c], acc) from 0; numbers not seen take no part
// The first block that it sees gives m, l, o. Each next one is merged as AttentionMergeFn says. If
// m is zero its sign is not part of the contract.
struct AttentionSpanArgs {
  const AttentionQuery *queries;
  size_t n_queries;     // 1 .. kMaxAttentionQueries
  size_t first_number;  // of the span, a multiple of kAttentionSpan
  const void *keys;     // of place 0, in the number format of the function
  size_t key_stride;
  const void *values;
  size_t value_stride;
  const int32_t *positions;  // position of number k; nullptr: k
  size_t ring;               // place = position % ring; 0: place = position
  size_t key_width, value_width;
  float scale;
  float *scratch;  // attention_scratch_floats() of the same shape, 64-byte aligned
};
using AttentionSpanFn = void (*)(const AttentionSpanArgs &) noexcept;
// Upper bound over all sets; defined in cpu_scratch.cpp. The widths fit 32 bits.
size_t attention_scratch_floats(size_t key_width, size_t value_width, size_t n_queries) noexcept;

// Joins what comes next (m_b, l_b, o_b) to what there is (m, l, o), for blocks of a span and for
// spans of a row alike: M = max(m, m_b); a = exp(m - M); b = exp(m_b - M); l = fma(l, a, l_b * b);
// o = fma(o, a, o_b * b); m = M.
using AttentionMergeFn = void (*)(float *numbers, float *out, const float *next_numbers,
                                  const float *next_out, size_t width) noexcept;

// The end of a row: without a sink out = o * (1 / l). With one, M = max(m, sink);
// a = exp(m - M); r = a / fma(l, a, exp(sink - M)); out = o * r. `sink` may be nullptr.
using AttentionFinishFn = void (*)(const float *numbers, const float *sink, float *out,
                                   size_t width) noexcept;

// Keys first_key .. first_key + n_keys - 1 (first_key a multiple of 16) of one row: d = (chain over
// width of fma(q[h], key, acc) from 0) * scale; score = chain over h of fma(weights[h], max(d, 0),
// acc) from 0.
struct IndexScoresKernelArgs {
  const float *queries;  // [n_heads][width]
  const float *weights;  // [n_heads]
  size_t n_heads, width;
  const float *key_panels;  // [position / 16][width][16]
  size_t first_key, n_keys;
  float scale;
  float *scores;  // indexed by position
};
using IndexScoresFn = void (*)(const IndexScoresKernelArgs &) noexcept;

// For measuring alone (cpu/roofline.h). The multiply-add of the set's matrix kernels, n_rounds
// times on independent registers without memory; returns how many multiply-adds that was. The same
// number for every round.
using PeakFn = uint64_t (*)(uint64_t n_rounds) noexcept;
struct PeakKernel {
  PeakFn run;
  const char *instruction;  // as "vpdpbusd zmm"
};
// The exclusive or of all 8-byte words of n_bytes (a multiple of kReadUnitBytes) at `data`, 64-byte
// aligned, read with the widest loads of the set.
constexpr size_t kReadUnitBytes = 4096;
using ReadFn = uint64_t (*)(const uint8_t *data, size_t n_bytes) noexcept;

// One complete set for one instruction set. Order of float_gemm: WeightFormat F32, BF16, F16, FP8,
// INT8, INT4, MXFP4.
struct KernelSet {
  FloatGemmFn float_gemm[7];
  IntGemmFn int8_gemm;
  IntGemmFn int4_gemm;
  IntGemmFn mxfp4_gemm;
  QuantiseRowFn quantise_row;
  RmsNormRowFn rms_norm_row;
  LayerNormRowFn layer_norm_row;
  SiluRowFn silu_row;
  ClampedSwishRowFn clamped_swish_row;
  SigmoidRowFn sigmoid_row;
  SoftmaxRowFn softmax_row;
  RoundRowFn bf16_row, f16_row;
  AddRowFn add_row;
  CombineRowFn combine_row;
  AttentionSpanFn attention_span[3];
  AttentionMergeFn attention_merge;
  AttentionFinishFn attention_finish;
  IndexScoresFn index_scores;
  PeakKernel int4_peak, int8_peak, float_peak;
  // Ways to read: one ascending stream, the same with prefetch; four at once, with prefetch. Which
  // one is fastest depends on the machine.
  ReadFn reads[4];
};

extern const KernelSet kKernelSetRef;
extern const KernelSet kKernelSetAvx2;    // AVX2, FMA, F16C
extern const KernelSet kKernelSetAvx512;  // AVX-512 F, BW, DQ, VL, VNNI
// The same for processors whose hardware follows many read streams at once.
extern const KernelSet kKernelSetAvx2Streams;
extern const KernelSet kKernelSetAvx512Streams;
// And for those that do so if software reads ahead as well.
extern const KernelSet kKernelSetAvx2StreamsAhead;
extern const KernelSet kKernelSetAvx512StreamsAhead;

}  // namespace colibri::cpu

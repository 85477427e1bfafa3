// SPDX-License-Identifier: Apache-2.0
//
// The tables of the kernels of AVX2, FMA and F16C, one for each way in which a
// processor deals with read streams. They differ in the order in which integer products read.

#include "cpu/kernels.h"

namespace colibri::cpu {

void float_gemm_f32_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_bf16_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_f16_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_fp8_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_int8_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_int4_avx2(const FloatGemmArgs &) noexcept;
void float_gemm_mxfp4_avx2(const FloatGemmArgs &) noexcept;
void int8_gemm_avx2(const IntGemmArgs &) noexcept;
void int4_gemm_avx2(const IntGemmArgs &) noexcept;
void int8_gemm_avx2_streams(const IntGemmArgs &) noexcept;
void int4_gemm_avx2_streams(const IntGemmArgs &) noexcept;
void int8_gemm_avx2_streams_ahead(const IntGemmArgs &) noexcept;
void int4_gemm_avx2_streams_ahead(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx2(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx2_streams(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx2_streams_ahead(const IntGemmArgs &) noexcept;
void quantise_row_avx2(const float *, size_t, size_t, int8_t *, float *, int32_t *) noexcept;
void rms_norm_row_avx2(const float *, const float *, float, size_t, float *) noexcept;
void layer_norm_row_avx2(const float *, const float *, const float *, float, size_t,
                         float *) noexcept;
void silu_row_avx2(const float *, const float *, size_t, float *) noexcept;
void clamped_swish_row_avx2(const ClampedSwishArgs &) noexcept;
void sigmoid_row_avx2(const float *, size_t, float *) noexcept;
void softmax_row_avx2(const float *, size_t, float *) noexcept;
void bf16_row_avx2(const float *, size_t, uint16_t *) noexcept;
void f16_row_avx2(const float *, size_t, uint16_t *) noexcept;
void add_row_avx2(float *, const float *, size_t) noexcept;
void combine_row_avx2(const CombineRowArgs &) noexcept;
void attention_span_f32_avx2(const AttentionSpanArgs &) noexcept;
void attention_span_bf16_avx2(const AttentionSpanArgs &) noexcept;
void attention_span_f16_avx2(const AttentionSpanArgs &) noexcept;
void attention_merge_avx2(float *, float *, const float *, const float *, size_t) noexcept;
void attention_finish_avx2(const float *, const float *, float *, size_t) noexcept;
void index_scores_avx2(const IndexScoresKernelArgs &) noexcept;
uint64_t int4_peak_avx2(uint64_t) noexcept;
uint64_t int8_peak_avx2(uint64_t) noexcept;
uint64_t float_peak_avx2(uint64_t) noexcept;
uint64_t read_ascending_avx2(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_avx2(const uint8_t *, size_t) noexcept;
uint64_t read_four_streams_avx2(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_streams_avx2(const uint8_t *, size_t) noexcept;

namespace {

constexpr KernelSet make_set(IntGemmFn int8_gemm, IntGemmFn int4_gemm, IntGemmFn mxfp4_gemm) {
  return {
      {float_gemm_f32_avx2, float_gemm_bf16_avx2, float_gemm_f16_avx2, float_gemm_fp8_avx2,
       float_gemm_int8_avx2, float_gemm_int4_avx2, float_gemm_mxfp4_avx2},
      int8_gemm,
      int4_gemm,
      mxfp4_gemm,
      quantise_row_avx2,
      rms_norm_row_avx2,
      layer_norm_row_avx2,
      silu_row_avx2,
      clamped_swish_row_avx2,
      sigmoid_row_avx2,
      softmax_row_avx2,
      bf16_row_avx2,
      f16_row_avx2,
      add_row_avx2,
      combine_row_avx2,
      {attention_span_f32_avx2, attention_span_bf16_avx2, attention_span_f16_avx2},
      attention_merge_avx2,
      attention_finish_avx2,
      index_scores_avx2,
      {int4_peak_avx2, "vpmaddubsw+vpaddw ymm"},
      {int8_peak_avx2, "vpmaddwd+vpaddd ymm"},
      {float_peak_avx2, "vfmadd ps ymm"},
      {read_ascending_avx2, read_prefetched_avx2, read_four_streams_avx2,
       read_prefetched_streams_avx2},
  };
}

}  // namespace

extern constexpr KernelSet kKernelSetAvx2 =
    make_set(int8_gemm_avx2, int4_gemm_avx2, mxfp4_gemm_avx2);
extern constexpr KernelSet kKernelSetAvx2Streams =
    make_set(int8_gemm_avx2_streams, int4_gemm_avx2_streams, mxfp4_gemm_avx2_streams);
extern constexpr KernelSet kKernelSetAvx2StreamsAhead = make_set(
    int8_gemm_avx2_streams_ahead, int4_gemm_avx2_streams_ahead, mxfp4_gemm_avx2_streams_ahead);

}  // namespace colibri::cpu

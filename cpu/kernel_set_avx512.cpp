// SPDX-License-Identifier: Apache-2.0
//
// The tables of the kernels of AVX-512 F, BW, DQ, VL and VNNI, one for each way in which a
// processor deals with read streams. They differ in the order in which integer products read.

#include "cpu/kernels.h"

namespace colibri::cpu {

void float_gemm_f32_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_bf16_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_f16_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_fp8_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_int8_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_int4_avx512(const FloatGemmArgs &) noexcept;
void float_gemm_mxfp4_avx512(const FloatGemmArgs &) noexcept;
void int8_gemm_avx512(const IntGemmArgs &) noexcept;
void int4_gemm_avx512(const IntGemmArgs &) noexcept;
void int8_gemm_avx512_streams(const IntGemmArgs &) noexcept;
void int4_gemm_avx512_streams(const IntGemmArgs &) noexcept;
void int8_gemm_avx512_streams_ahead(const IntGemmArgs &) noexcept;
void int4_gemm_avx512_streams_ahead(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx512(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx512_streams(const IntGemmArgs &) noexcept;
void mxfp4_gemm_avx512_streams_ahead(const IntGemmArgs &) noexcept;
void quantise_row_avx512(const float *, size_t, size_t, int8_t *, float *, int32_t *) noexcept;
void rms_norm_row_avx512(const float *, const float *, float, size_t, float *) noexcept;
void layer_norm_row_avx512(const float *, const float *, const float *, float, size_t,
                           float *) noexcept;
void silu_row_avx512(const float *, const float *, size_t, float *) noexcept;
void clamped_swish_row_avx512(const ClampedSwishArgs &) noexcept;
void sigmoid_row_avx512(const float *, size_t, float *) noexcept;
void softmax_row_avx512(const float *, size_t, float *) noexcept;
void bf16_row_avx512(const float *, size_t, uint16_t *) noexcept;
void f16_row_avx512(const float *, size_t, uint16_t *) noexcept;
void add_row_avx512(float *, const float *, size_t) noexcept;
void combine_row_avx512(const CombineRowArgs &) noexcept;
void attention_span_f32_avx512(const AttentionSpanArgs &) noexcept;
void attention_span_bf16_avx512(const AttentionSpanArgs &) noexcept;
void attention_span_f16_avx512(const AttentionSpanArgs &) noexcept;
void attention_merge_avx512(float *, float *, const float *, const float *, size_t) noexcept;
void attention_finish_avx512(const float *, const float *, float *, size_t) noexcept;
void index_scores_avx512(const IndexScoresKernelArgs &) noexcept;
uint64_t integer_peak_avx512(uint64_t) noexcept;
uint64_t float_peak_avx512(uint64_t) noexcept;
uint64_t read_ascending_avx512(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_avx512(const uint8_t *, size_t) noexcept;
uint64_t read_four_streams_avx512(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_streams_avx512(const uint8_t *, size_t) noexcept;

namespace {

constexpr KernelSet make_set(IntGemmFn int8_gemm, IntGemmFn int4_gemm, IntGemmFn mxfp4_gemm) {
  return {
      {float_gemm_f32_avx512, float_gemm_bf16_avx512, float_gemm_f16_avx512, float_gemm_fp8_avx512,
       float_gemm_int8_avx512, float_gemm_int4_avx512, float_gemm_mxfp4_avx512},
      int8_gemm,
      int4_gemm,
      mxfp4_gemm,
      quantise_row_avx512,
      rms_norm_row_avx512,
      layer_norm_row_avx512,
      silu_row_avx512,
      clamped_swish_row_avx512,
      sigmoid_row_avx512,
      softmax_row_avx512,
      bf16_row_avx512,
      f16_row_avx512,
      add_row_avx512,
      combine_row_avx512,
      {attention_span_f32_avx512, attention_span_bf16_avx512, attention_span_f16_avx512},
      attention_merge_avx512,
      attention_finish_avx512,
      index_scores_avx512,
      {integer_peak_avx512, "vpdpbusd zmm"},
      {integer_peak_avx512, "vpdpbusd zmm"},
      {float_peak_avx512, "vfmadd ps zmm"},
      {read_ascending_avx512, read_prefetched_avx512, read_four_streams_avx512,
       read_prefetched_streams_avx512},
  };
}

}  // namespace

extern constexpr KernelSet kKernelSetAvx512 =
    make_set(int8_gemm_avx512, int4_gemm_avx512, mxfp4_gemm_avx512);
extern constexpr KernelSet kKernelSetAvx512Streams =
    make_set(int8_gemm_avx512_streams, int4_gemm_avx512_streams, mxfp4_gemm_avx512_streams);
extern constexpr KernelSet kKernelSetAvx512StreamsAhead =
    make_set(int8_gemm_avx512_streams_ahead, int4_gemm_avx512_streams_ahead,
             mxfp4_gemm_avx512_streams_ahead);

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// The table of the kernels of one set: the reference.

#include "cpu/kernels.h"

namespace colibri::cpu {

void float_gemm_f32_ref(const FloatGemmArgs &) noexcept;
void float_gemm_bf16_ref(const FloatGemmArgs &) noexcept;
void float_gemm_f16_ref(const FloatGemmArgs &) noexcept;
void float_gemm_fp8_ref(const FloatGemmArgs &) noexcept;
void float_gemm_int8_ref(const FloatGemmArgs &) noexcept;
void float_gemm_int4_ref(const FloatGemmArgs &) noexcept;
void float_gemm_mxfp4_ref(const FloatGemmArgs &) noexcept;
void int8_gemm_ref(const IntGemmArgs &) noexcept;
void int4_gemm_ref(const IntGemmArgs &) noexcept;
void mxfp4_gemm_ref(const IntGemmArgs &) noexcept;
void quantise_row_ref(const float *, size_t, size_t, int8_t *, float *, int32_t *) noexcept;
void rms_norm_row_ref(const float *, const float *, float, size_t, float *) noexcept;
void layer_norm_row_ref(const float *, const float *, const float *, float, size_t,
                        float *) noexcept;
void silu_row_ref(const float *, const float *, size_t, float *) noexcept;
void clamped_swish_row_ref(const ClampedSwishArgs &) noexcept;
void sigmoid_row_ref(const float *, size_t, float *) noexcept;
void softmax_row_ref(const float *, size_t, float *) noexcept;
void bf16_row_ref(const float *, size_t, uint16_t *) noexcept;
void f16_row_ref(const float *, size_t, uint16_t *) noexcept;
void add_row_ref(float *, const float *, size_t) noexcept;
void combine_row_ref(const CombineRowArgs &) noexcept;
void attention_span_f32_ref(const AttentionSpanArgs &) noexcept;
void attention_span_bf16_ref(const AttentionSpanArgs &) noexcept;
void attention_span_f16_ref(const AttentionSpanArgs &) noexcept;
void attention_merge_ref(float *, float *, const float *, const float *, size_t) noexcept;
void attention_finish_ref(const float *, const float *, float *, size_t) noexcept;
void index_scores_ref(const IndexScoresKernelArgs &) noexcept;
uint64_t integer_peak_ref(uint64_t) noexcept;
uint64_t float_peak_ref(uint64_t) noexcept;
uint64_t read_ascending_ref(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_ref(const uint8_t *, size_t) noexcept;
uint64_t read_four_streams_ref(const uint8_t *, size_t) noexcept;
uint64_t read_prefetched_streams_ref(const uint8_t *, size_t) noexcept;

extern const KernelSet kKernelSetRef = {
    {float_gemm_f32_ref, float_gemm_bf16_ref, float_gemm_f16_ref, float_gemm_fp8_ref,
     float_gemm_int8_ref, float_gemm_int4_ref, float_gemm_mxfp4_ref},
    int8_gemm_ref,
    int4_gemm_ref,
    mxfp4_gemm_ref,
    quantise_row_ref,
    rms_norm_row_ref,
    layer_norm_row_ref,
    silu_row_ref,
    clamped_swish_row_ref,
    sigmoid_row_ref,
    softmax_row_ref,
    bf16_row_ref,
    f16_row_ref,
    add_row_ref,
    combine_row_ref,
    {attention_span_f32_ref, attention_span_bf16_ref, attention_span_f16_ref},
    attention_merge_ref,
    attention_finish_ref,
    index_scores_ref,
    {integer_peak_ref, "integer multiply, add"},
    {integer_peak_ref, "integer multiply, add"},
    {float_peak_ref, "fmaf"},
    {read_ascending_ref, read_prefetched_ref, read_four_streams_ref, read_prefetched_streams_ref},
};

}  // namespace colibri::cpu

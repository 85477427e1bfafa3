// SPDX-License-Identifier: Apache-2.0
//
// MXFP4 weights times int8 rows, several rows at once: AVX-512 VNNI.
//
// Contract: IntGemmFn in cpu/kernels.h. Definition: int_gemm_ref.cpp, equal bit for bit. How it is
// multiplied is in int_tiles_avx512.h: as INT4, with a table of 16 bytes between nibble and factor.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/int_tiles_avx512.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

struct MxFp4Format : NibbleLines {
  static constexpr size_t kUnrolledGroup = 32;
  static constexpr int32_t kOffset = 12;
  static inline Line decode(__m512i line) {
    // 12 plus twice the value of the code.
    const __m512i table = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const Line codes = nibbles(line);
    return {_mm512_shuffle_epi8(table, codes.low), _mm512_shuffle_epi8(table, codes.high)};
  }
  // Half the scale, since weights are doubled. The bit below the exponent makes 2^-127 of byte 0
  // and NaN of byte 255.
  static inline __m512 load_scales(const GemmWeights &, const uint8_t *at) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
    const __m512i exponents = _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 23);
    const __mmask16 is_least = _mm512_testn_epi32_mask(exponents, exponents);
    const __mmask16 is_nan = _mm512_cmpeq_epi32_mask(exponents, _mm512_set1_epi32(0x7F800000));
    const __m512i scale = _mm512_mask_or_epi32(exponents, static_cast<__mmask16>(is_least | is_nan),
                                               exponents, _mm512_set1_epi32(0x400000));
    return _mm512_mul_ps(_mm512_castsi512_ps(scale), _mm512_set1_ps(0.5f));
  }
};

}  // namespace

void mxfp4_gemm_avx512(const IntGemmArgs &args) noexcept {
  multiply<MxFp4Format, PrefetchNear>(args, args.first_panel);
}
void mxfp4_gemm_avx512_streams(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kNibbleStreams<MxFp4Format>);
}
void mxfp4_gemm_avx512_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kStreamsAhead<MxFp4Format>);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// INT8 and INT4 weights times int8 rows, several rows at once: AVX-512 VNNI.
//
// Contract: IntGemmFn in cpu/kernels.h. Definition: int_gemm_ref.cpp, equal bit for bit. Here are
// the formats; how they are multiplied is in int_tiles_avx512.h.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/int_tiles_avx512.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

// 4 depths in a line.
struct Int8Format : FloatScales {
  static constexpr size_t kLineDepths = 4;
  static constexpr size_t kLineChains = 1;
  static constexpr int32_t kOffset = 128;
  struct Line {
    __m512i bytes;
  };
  static inline Line decode(__m512i line) { return {line}; }
  template <size_t kChains>
  static inline void add(const Line &line, const int8_t *q, size_t chain, __m512i *dots) {
    __m512i &dot = dots[chain % kChains];
    dot = _mm512_dpbusd_epi32(dot, line.bytes, four_depths(q));
  }
  // One row of a pair of panels.
  static inline void add_pair(const Line *lines, const int8_t *q, __m512i *dots) {
    const __m512i depths = four_depths(q);
    for (size_t p = 0; p < kPair; ++p) {
      dots[p] = _mm512_dpbusd_epi32(dots[p], lines[p].bytes, depths);
    }
  }
};

struct Int4Format : NibbleLines, FloatScales {
  static constexpr int32_t kOffset = 8;
  static inline Line decode(__m512i line) { return nibbles(line); }
};

// The same, with one instruction instead of shift and mask: where decoding takes turns with
// VPDPBUSD on the same ports, eight rows gain 3 %. Written for the assembler, so that the
// compiler's flags of this file need no GFNI.
struct Int4GfniFormat : Int4Format {
  static inline Line decode(__m512i line) {
    // Row i of the bit matrix makes bit i of each byte: bits 0..3 are bits 4..7, the others zero.
    const __m512i high_to_low = _mm512_set1_epi64(0x1020408000000000);
    __m512i high;
    __asm__("vgf2p8affineqb $0, %2, %1, %0" : "=v"(high) : "v"(line), "v"(high_to_low));
    return {_mm512_and_si512(line, _mm512_set1_epi8(0x0F)), high};
  }
};

// Indexed by the number of rows, less one; the last is for all more.
constexpr Multiply kInt8Streams[] = {
    multiply_four<Int8Format, 1>, multiply_four<Int8Format, 2>, multiply_four<Int8Format, 3>,
    multiply_four<Int8Format, 4>, multiply_two<Int8Format, 5>,  multiply_two<Int8Format, 6>,
    multiply_one<Int8Format>,
};

}  // namespace

void int8_gemm_avx512(const IntGemmArgs &args) noexcept {
  multiply<Int8Format, PrefetchNear>(args, args.first_panel);
}
void int4_gemm_avx512(const IntGemmArgs &args) noexcept {
  multiply<Int4Format, PrefetchNear>(args, args.first_panel);
}
void int8_gemm_avx512_streams(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kInt8Streams);
}
void int4_gemm_avx512_streams(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kNibbleStreams<Int4Format>);
}
// Of processors that have GFNI as well.
void int8_gemm_avx512_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kStreamsAhead<Int8Format>);
}
void int4_gemm_avx512_streams_ahead(const IntGemmArgs &args) noexcept {
  multiply_by_rows(args, kStreamsAhead<Int4GfniFormat>);
}

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// Scores of the index keys of one row: AVX-512.
//
// Contract: IndexScoresFn in cpu/kernels.h. Definition: index_scores_ref.cpp, equal bit for bit.
//
// Tile   kTileHeads heads by kPanels panels of 16 keys: that many chains in flight, each key read
//        once per tile.
// Tails  a missing head repeats the last one and is not summed; missing keys are computed in the
//        padded panel and not stored.
//
// Built with row `avx512` of cpu/CMakeLists.txt.

#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kTileHeads = 8;

// Adds the heads first_head .. to the scores of kPanels panels.
template <size_t kPanels>
inline void add_heads(const IndexScoresKernelArgs &args, const float *keys, size_t first_head,
                      __m512 *scores) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kTileHeads ? left : kTileHeads;
  const size_t panel_floats = args.width * kLanes;
  const float *queries[kTileHeads];
  __m512 dots[kTileHeads][kPanels];
  for (size_t h = 0; h < kTileHeads; ++h) {
    queries[h] = args.queries + (first_head + (h < n ? h : n - 1)) * args.width;
    for (size_t p = 0; p < kPanels; ++p) dots[h][p] = _mm512_setzero_ps();
  }
  for (size_t d = 0; d < args.width; ++d) {
    __m512 key[kPanels];
    for (size_t p = 0; p < kPanels; ++p) {
      key[p] = _mm512_loadu_ps(keys + p * panel_floats + d * kLanes);
    }
    for (size_t h = 0; h < kTileHeads; ++h) {
      const __m512 query = _mm512_set1_ps(queries[h][d]);
      for (size_t p = 0; p < kPanels; ++p) dots[h][p] = _mm512_fmadd_ps(query, key[p], dots[h][p]);
    }
  }
  const __m512 scale = _mm512_set1_ps(args.scale);
  for (size_t h = 0; h < kTileHeads; ++h) {
    if (h >= n) break;
    const __m512 weight = _mm512_set1_ps(args.weights[first_head + h]);
    for (size_t p = 0; p < kPanels; ++p) {
      const __m512 positive = _mm512_max_ps(_mm512_mul_ps(dots[h][p], scale), _mm512_setzero_ps());
      scores[p] = _mm512_fmadd_ps(weight, positive, scores[p]);
    }
  }
}

template <size_t kPanels>
inline void score_panels(const IndexScoresKernelArgs &args, size_t first_key, size_t n_keys) {
  const float *keys = args.key_panels + first_key * args.width;
  __m512 scores[kPanels];
  for (size_t p = 0; p < kPanels; ++p) scores[p] = _mm512_setzero_ps();
  for (size_t h = 0; h < args.n_heads; h += kTileHeads) add_heads<kPanels>(args, keys, h, scores);
  for (size_t p = 0; p < kPanels; ++p) {
    const size_t left = n_keys - p * kLanes;
    const __mmask16 lanes =
        left >= kLanes ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << left) - 1u);
    _mm512_mask_storeu_ps(args.scores + first_key + p * kLanes, lanes, scores[p]);
  }
}

}  // namespace

void index_scores_avx512(const IndexScoresKernelArgs &args) noexcept {
  size_t done = 0;
  while (args.n_keys - done > kLanes) {
    const size_t left = args.n_keys - done;
    const size_t n = left < 2 * kLanes ? left : 2 * kLanes;
    score_panels<2>(args, args.first_key + done, n);
    done += n;
  }
  if (done < args.n_keys) score_panels<1>(args, args.first_key + done, args.n_keys - done);
}

}  // namespace colibri::cpu

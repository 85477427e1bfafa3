// SPDX-License-Identifier: Apache-2.0
//
// Scores of the index keys of one row: AVX2.
//
// Contract: IndexScoresFn in cpu/kernels.h. Definition: index_scores_ref.cpp, equal bit for bit.
//
// Tile   4 heads by one panel of 16 keys: eight chains in flight, each key read once per tile.
// Tails  a missing head repeats the last one and is not summed; missing keys are computed in the
//        padded panel and not stored.
//
// Built with row `avx2` of cpu/CMakeLists.txt.

#include "cpu/float_math_avx2.h"
#include "cpu/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

namespace colibri::cpu {
namespace {

constexpr size_t kLanes = 16;
constexpr size_t kHalfLanes = 8;
constexpr size_t kTileHeads = 4;

// Adds the heads first_head .. to the scores of one panel.
inline void add_heads(const IndexScoresKernelArgs &args, const float *keys, size_t first_head,
                      __m256 *scores) {
  const size_t left = args.n_heads - first_head;
  const size_t n = left < kTileHeads ? left : kTileHeads;
  const float *queries[kTileHeads];
  __m256 dots[kTileHeads][2];
  for (size_t h = 0; h < kTileHeads; ++h) {
    queries[h] = args.queries + (first_head + (h < n ? h : n - 1)) * args.width;
    dots[h][0] = dots[h][1] = _mm256_setzero_ps();
  }
  for (size_t d = 0; d < args.width; ++d) {
    const __m256 low = _mm256_loadu_ps(keys + d * kLanes);
    const __m256 high = _mm256_loadu_ps(keys + d * kLanes + kHalfLanes);
    for (size_t h = 0; h < kTileHeads; ++h) {
      const __m256 query = _mm256_set1_ps(queries[h][d]);
      dots[h][0] = _mm256_fmadd_ps(query, low, dots[h][0]);
      dots[h][1] = _mm256_fmadd_ps(query, high, dots[h][1]);
    }
  }
  const __m256 scale = _mm256_set1_ps(args.scale);
  for (size_t h = 0; h < kTileHeads; ++h) {
    if (h >= n) break;
    const __m256 weight = _mm256_set1_ps(args.weights[first_head + h]);
    for (size_t half = 0; half < 2; ++half) {
      const __m256 positive =
          _mm256_max_ps(_mm256_mul_ps(dots[h][half], scale), _mm256_setzero_ps());
      scores[half] = _mm256_fmadd_ps(weight, positive, scores[half]);
    }
  }
}

}  // namespace

void index_scores_avx2(const IndexScoresKernelArgs &args) noexcept {
  for (size_t done = 0; done < args.n_keys; done += kLanes) {
    const size_t left = args.n_keys - done;
    const float *keys = args.key_panels + (args.first_key + done) * args.width;
    float *to = args.scores + args.first_key + done;
    __m256 scores[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (size_t h = 0; h < args.n_heads; h += kTileHeads) add_heads(args, keys, h, scores);
    store_first(to, left, scores[0]);
    if (left > kHalfLanes) store_first(to + kHalfLanes, left - kHalfLanes, scores[1]);
  }
}

}  // namespace colibri::cpu

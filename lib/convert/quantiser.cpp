// SPDX-License-Identifier: Apache-2.0
//
// The scale search is that of symmetric 4-bit formats elsewhere: trial scales around the one that
// lets the largest magnitude meet code -8, each rated by how much of the group its best multiple of
// the codes explains. The trials are nearly all of the time, so their loop is written with vectors
// of four floats, which every processor of the baseline has; as plain loops GCC 12 left half of
// them scalar. Sums have eight lanes that are joined in a fixed order.

#include "lib/convert/quantiser.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/base/number_formats.h"

namespace colibri {
namespace {

// Four floats that are computed with like one.
using Quad = float __attribute__((vector_size(16)));
constexpr size_t kQuadFloats = 4;
constexpr size_t kLanes = 2 * kQuadFloats;
constexpr int kTrials = 9;  // on either side of the absmax scale
constexpr float kTrialStep = 0.1f;

struct CodeRange {
  float least, most;
};

CodeRange code_range(WeightFormat format) {
  return format == WeightFormat::kInt4 ? CodeRange{-8.0f, 7.0f} : CodeRange{-127.0f, 127.0f};
}

// The integer nearest to x, ties to even, for |x| < 2^22: the first sum has no bits for a fraction.
template <typename Value>
inline Value round_to_even(Value x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23
  return (x + kShift) - kShift;
}

// Clamped after rounding, as GCC makes branches of it the other way round.
inline float choose_code(float x, CodeRange range) {
  x = round_to_even(x);
  x = x < range.least ? range.least : x;
  return x > range.most ? range.most : x;
}

inline Quad load_quad(const float *from) {
  Quad quad;
  std::memcpy(&quad, from, sizeof quad);
  return quad;
}

inline Quad fill_quad(float value) {
  return Quad{value, value, value, value};
}

inline float sum_lanes(Quad low, Quad high) {
  const Quad sum = low + high;
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// The first weight of the largest magnitude.
float find_peak(std::span<const float> group) {
  float peak = 0.0f;
  for (const float weight : group) peak = std::max(peak, std::fabs(weight));
  return *std::find_if(group.begin(), group.end(),
                       [peak](float weight) { return std::fabs(weight) == peak; });
}

// A group divided by its peak, so that no sum depends on how large or small its weights are, and
// padded with zeros to whole lanes.
struct SearchGroup {
  size_t n = 0;  // a multiple of kLanes
  float importance[kLargestQuantiserGroup];
  float weighted[kLargestQuantiserGroup];  // value * importance
  float values[kLargestQuantiserGroup];    // -1..1
};

void prepare_search(std::span<const float> weights, float peak, SearchGroup *group) {
  group->n = (weights.size() + kLanes - 1) / kLanes * kLanes;
  for (size_t i = 0; i < weights.size(); ++i) group->values[i] = weights[i] / peak;
  std::fill(group->values + weights.size(), group->values + group->n, 0.0f);
  Quad squares[2] = {};
  for (size_t i = 0; i < group->n; i += kLanes) {
    for (size_t part = 0; part < 2; ++part) {
      const Quad values = load_quad(group->values + i + part * kQuadFloats);
      squares[part] += values * values;
    }
  }
  const float mean_square = sum_lanes(squares[0], squares[1]) / static_cast<float>(weights.size());
  for (size_t i = 0; i < group->n; ++i) {
    const float value = group->values[i];
    group->importance[i] = value * value + mean_square;
    group->weighted[i] = value * group->importance[i];
  }
}

// With codes q for an inverse scale, the least squares scale is value_code / code_code, and
// value_code^2 / code_code is what it takes off the weighted sum of squares.
struct TrialSums {
  float value_code, code_code;
};

// kReachesLeast: the peak may come out below the least code. Most trials save that comparison,
// which is a sixth of their time.
template <bool kReachesLeast>
TrialSums try_inverse_scale(const SearchGroup &group, float inverse_scale) {
  const CodeRange range = code_range(WeightFormat::kInt4);
  const Quad least = fill_quad(range.least);
  const Quad most = fill_quad(range.most);
  Quad value_code[2] = {};
  Quad code_code[2] = {};
  for (size_t i = 0; i < group.n; i += kLanes) {
    for (size_t part = 0; part < 2; ++part) {
      const size_t at = i + part * kQuadFloats;
      Quad code = round_to_even(load_quad(group.values + at) * inverse_scale);
      if constexpr (kReachesLeast) code = code < least ? least : code;
      code = code > most ? most : code;
      value_code[part] += load_quad(group.weighted + at) * code;
      code_code[part] += load_quad(group.importance + at) * code * code;
    }
  }
  return {sum_lanes(value_code[0], value_code[1]), sum_lanes(code_code[0], code_code[1])};
}

float search_scale(std::span<const float> weights, float peak) {
  SearchGroup group;
  prepare_search(weights, peak, &group);
  float best_gain = -1.0f;
  float best_scale = 0.0f;
  for (int i = -kTrials; i <= kTrials; ++i) {
    // The peak is 1 here, so its code is never 0 and neither is the divisor.
    const float inverse_scale = -(8.0f + kTrialStep * static_cast<float>(i));
    const TrialSums sums = inverse_scale < -8.5f ? try_inverse_scale<true>(group, inverse_scale)
                                                 : try_inverse_scale<false>(group, inverse_scale);
    const float gain = sums.value_code * sums.value_code / sums.code_code;
    if (gain <= best_gain) continue;
    best_gain = gain;
    best_scale = sums.value_code / sums.code_code;
  }
  return best_scale * peak;
}

float choose_scale(WeightFormat format, ScaleSearch search, std::span<const float> weights,
                   float peak) {
  if (peak == 0.0f) return 0.0f;
  if (format == WeightFormat::kInt8) return std::fabs(peak) / 127.0f;
  return search == ScaleSearch::kSearch ? search_scale(weights, peak) : peak / -8.0f;
}

float quantise_group(const WeightLayout &layout, ScaleSearch search, std::span<const float> weights,
                     int8_t *codes) {
  const float peak = find_peak(weights);
  float scale = choose_scale(layout.format, search, weights, peak);
  if (layout.scale_type == ScaleType::kBF16) scale = bf16_to_float(float_to_bf16(scale));
  if (scale == 0.0f) {  // all zeros, or below what a scale can hold
    std::memset(codes, 0, weights.size());
    return 0.0f;
  }
  const CodeRange range = code_range(layout.format);
  for (size_t i = 0; i < weights.size(); ++i) {
    codes[i] = static_cast<int8_t>(choose_code(weights[i] / scale, range));
  }
  return scale;
}

}  // namespace

void quantise_row(const WeightLayout &layout, ScaleSearch search, std::span<const float> row,
                  int8_t *codes, float *scales) noexcept {
  for (size_t first = 0; first < row.size(); first += layout.group) {
    const size_t n = std::min<size_t>(layout.group, row.size() - first);
    *scales++ = quantise_group(layout, search, row.subspan(first, n), codes + first);
  }
}

}  // namespace colibri

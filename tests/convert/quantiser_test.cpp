// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/quantiser.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/number_formats.h"
#include "lib/snapshot/hash.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;

WeightLayout make_layout(WeightFormat format, uint32_t group,
                         ScaleType scale_type = ScaleType::kBF16) {
  WeightLayout layout;
  layout.format = format;
  layout.group = group;
  layout.scale_type = scale_type;
  return layout;
}

struct Random {
  uint64_t state = 1;
  // In (0, 1).
  double uniform() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state >> 33) + 0.5) / 2147483648.0;
  }
  double normal() {
    return std::sqrt(-2.0 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  }
};

// Rows as models have them, and some that they do not have.
std::vector<float> make_row(const std::string &kind, size_t depth) {
  Random random;
  std::vector<float> row(depth);
  for (size_t i = 0; i < depth; ++i) {
    double weight = 0.02 * random.normal();
    if (kind == "even") weight = random.uniform() - 0.5;
    if (kind == "peaked") weight *= std::fabs(random.normal()) * std::fabs(random.normal());
    if (kind == "one outlier a group" && i % 64 == 5) weight = 0.3;
    if (kind == "all alike") weight = -0.7;
    row[i] = static_cast<float>(weight);
  }
  return row;
}

const std::vector<std::string> kKinds = {"normal", "even", "peaked", "one outlier a group",
                                         "all alike"};

struct Quantised {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  uint32_t group = 0;
  float weight(size_t i) const { return static_cast<float>(codes[i]) * scales[i / group]; }
};

// The bytes behind the results must stay as they are.
Quantised quantise(const WeightLayout &layout, ScaleSearch search, const std::vector<float> &row) {
  constexpr int8_t kPattern = 99;
  Quantised result;
  result.group = layout.group;
  const size_t n_scales = (row.size() + layout.group - 1) / layout.group;
  result.codes.assign(row.size() + 1, kPattern);
  result.scales.assign(n_scales + 1, 99.0f);
  quantise_row(layout, search, row, result.codes.data(), result.scales.data());
  REQUIRE(result.codes.back() == kPattern);
  REQUIRE(result.scales.back() == 99.0f);
  result.codes.pop_back();
  result.scales.pop_back();
  return result;
}

// Weighted squared error of one group, as the search counts it.
double weighted_error(const std::vector<float> &row, const Quantised &quantised, size_t group) {
  const size_t first = group * quantised.group;
  const size_t end = std::min<size_t>(row.size(), first + quantised.group);
  double mean_square = 0;
  for (size_t i = first; i < end; ++i) mean_square += std::pow(row[i], 2.0);
  mean_square /= static_cast<double>(end - first);
  double error = 0;
  for (size_t i = first; i < end; ++i) {
    const double difference = static_cast<double>(row[i]) - quantised.weight(i);
    error += (std::pow(row[i], 2.0) + mean_square) * difference * difference;
  }
  return error;
}

int least_code(WeightFormat format) {
  return format == WeightFormat::kInt4 ? -8 : -127;
}
int most_code(WeightFormat format) {
  return format == WeightFormat::kInt4 ? 7 : 127;
}

}  // namespace

TEST_CASE("every code is the nearest to its weight for the scale as stored") {
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8}) {
    for (const ScaleSearch search : {ScaleSearch::kAbsmax, ScaleSearch::kSearch}) {
      for (const std::string &kind : kKinds) {
        INFO(weight_format_name(format) << ", " << kind << ", " << static_cast<int>(search));
        const std::vector<float> row = make_row(kind, 1000);
        const Quantised result = quantise(make_layout(format, 64), search, row);
        uint64_t n_wrong = 0;
        for (size_t i = 0; i < row.size(); ++i) {
          const int code = result.codes[i];
          REQUIRE(code >= least_code(format));
          REQUIRE(code <= most_code(format));
          const double ratio = static_cast<double>(row[i]) / result.scales[i / 64];
          const double best = std::clamp(ratio, static_cast<double>(least_code(format)),
                                         static_cast<double>(most_code(format)));
          n_wrong += std::fabs(code - best) > 0.500001;
        }
        CHECK(n_wrong == 0);
      }
    }
  }
}

TEST_CASE("scales are exact in the number format that stores them") {
  const std::vector<float> row = make_row("normal", 4096);
  uint64_t n_longer = 0;
  for (const ScaleSearch search : {ScaleSearch::kAbsmax, ScaleSearch::kSearch}) {
    for (const float scale : quantise(make_layout(WeightFormat::kInt4, 32), search, row).scales) {
      CHECK(bf16_to_float(float_to_bf16(scale)) == scale);
    }
    const WeightLayout wide = make_layout(WeightFormat::kInt4, 32, ScaleType::kF32);
    for (const float scale : quantise(wide, search, row).scales) {
      n_longer += bf16_to_float(float_to_bf16(scale)) != scale;
    }
  }
  CHECK(n_longer > 200);
}

TEST_CASE("the largest magnitude meets the last code under absmax, whatever its sign") {
  for (const float peak : {0.5f, -0.5f}) {
    std::vector<float> row(64, 0.01f);
    row[17] = peak;
    row[40] = -0.25f * peak;
    const Quantised four =
        quantise(make_layout(WeightFormat::kInt4, 64), ScaleSearch::kAbsmax, row);
    CHECK(four.codes[17] == -8);
    CHECK(four.weight(17) == peak);
    CHECK(four.weight(40) == -0.25f * peak);
    const Quantised eight =
        quantise(make_layout(WeightFormat::kInt8, 64), ScaleSearch::kAbsmax, row);
    CHECK(eight.codes[17] == (peak > 0 ? 127 : -127));
    CHECK(eight.scales[0] > 0);
  }
}

TEST_CASE("the search lowers the weighted error of INT4 and loses nothing to rounded scales") {
  for (const uint32_t group : {32u, 64u, 128u}) {
    for (const char *kind : {"normal", "even", "peaked"}) {
      INFO(kind << ", groups of " << group);
      const std::vector<float> row = make_row(kind, 64 * 128);
      const WeightLayout layout = make_layout(WeightFormat::kInt4, group);
      const Quantised plain = quantise(layout, ScaleSearch::kAbsmax, row);
      const Quantised searched = quantise(layout, ScaleSearch::kSearch, row);
      double plain_sum = 0, searched_sum = 0, worst = 0;
      for (size_t g = 0; g < plain.scales.size(); ++g) {
        const double before = weighted_error(row, plain, g);
        const double after = weighted_error(row, searched, g);
        plain_sum += before;
        searched_sum += after;
        worst = std::max(worst, after / before);
      }
      CHECK(searched_sum < 0.95 * plain_sum);
      CHECK(worst < 1.02);  // of a group where nothing is gained, after rounding to BF16
    }
  }
}

TEST_CASE("INT8 scales are not searched for") {
  const std::vector<float> row = make_row("normal", 1024);
  const WeightLayout layout = make_layout(WeightFormat::kInt8, 64);
  const Quantised plain = quantise(layout, ScaleSearch::kAbsmax, row);
  const Quantised searched = quantise(layout, ScaleSearch::kSearch, row);
  CHECK(plain.codes == searched.codes);
  CHECK(plain.scales == searched.scales);
}

TEST_CASE("groups may be short, single, or longer than the row") {
  for (const size_t depth :
       {size_t{1}, size_t{3}, size_t{16}, size_t{31}, size_t{65}, size_t{130}}) {
    const std::vector<float> row = make_row("normal", depth);
    for (const uint32_t group : {32u, 64u, kLargestQuantiserGroup}) {
      INFO("depth " << depth << ", group " << group);
      const WeightLayout layout = make_layout(WeightFormat::kInt4, group);
      const Quantised whole = quantise(layout, ScaleSearch::kSearch, row);
      for (size_t first = 0; first < depth; first += group) {
        const std::vector<float> part(
            row.begin() + static_cast<ptrdiff_t>(first),
            row.begin() + static_cast<ptrdiff_t>(std::min<size_t>(depth, first + group)));
        const Quantised alone = quantise(layout, ScaleSearch::kSearch, part);
        CHECK(alone.scales[0] == whole.scales[first / group]);
        CHECK(std::equal(alone.codes.begin(), alone.codes.end(),
                         whole.codes.begin() + static_cast<ptrdiff_t>(first)));
      }
    }
  }
}

TEST_CASE("a power of two scales a group without changing its codes") {
  const std::vector<float> row = make_row("peaked", 256);
  const WeightLayout layout = make_layout(WeightFormat::kInt4, 64);
  const Quantised expected = quantise(layout, ScaleSearch::kSearch, row);
  for (const int power : {-90, -20, 20, 120}) {
    std::vector<float> scaled = row;
    for (float &weight : scaled) weight = std::ldexp(weight, power);
    const Quantised result = quantise(layout, ScaleSearch::kSearch, scaled);
    INFO("2^" << power);
    CHECK(result.codes == expected.codes);
    CHECK(result.scales[3] == std::ldexp(expected.scales[3], power));
  }
}

TEST_CASE("zeros, the least and the largest weights have finite scales") {
  for (const WeightFormat format : {WeightFormat::kInt4, WeightFormat::kInt8}) {
    for (const ScaleSearch search : {ScaleSearch::kAbsmax, ScaleSearch::kSearch}) {
      const WeightLayout layout = make_layout(format, 32);
      for (const float weight :
           {0.0f, -0.0f, FLT_TRUE_MIN, -1e-41f, -1e-39f, FLT_MIN, 3e38f, FLT_MAX}) {
        INFO(weight_format_name(format) << ", " << weight);
        std::vector<float> row(40, weight);
        row[1] = -weight;
        const Quantised result = quantise(layout, search, row);
        for (const float scale : result.scales) CHECK(std::isfinite(scale));
        if (weight == 0.0f || std::fabs(weight) <= FLT_TRUE_MIN) {
          CHECK(std::bit_cast<uint32_t>(result.scales[0]) == 0);
          CHECK(result.codes == std::vector<int8_t>(40, 0));
        }
        if (std::fabs(weight) >= FLT_MIN && weight != FLT_MAX) {
          const double error = static_cast<double>(result.weight(5)) - weight;
          CHECK(std::fabs(error) < 0.15 * std::fabs(weight));
        }
      }
    }
  }
}

TEST_CASE("the same weights give the same bytes on every machine") {
  // The numbers are those of the first machine; another one that finds others computes differently.
  std::vector<float> row(4096 + 21);
  uint32_t state = 7;
  for (float &weight : row) {
    state = state * 1664525u + 1013904223u;
    const auto centred = static_cast<int32_t>(state >> 8) - (1 << 23);
    weight = static_cast<float>(centred) * static_cast<float>(state % 1000) * 1e-10f;
  }
  const auto hash = [&row](WeightFormat format, ScaleSearch search) {
    const Quantised result = quantise(make_layout(format, 64), search, row);
    const uint64_t codes =
        hash_bytes({reinterpret_cast<const char *>(result.codes.data()), result.codes.size()}, 0);
    return hash_bytes({reinterpret_cast<const char *>(result.scales.data()),
                       result.scales.size() * sizeof(float)},
                      codes);
  };
  CHECK(hash(WeightFormat::kInt4, ScaleSearch::kAbsmax) == 662241828442403339u);
  CHECK(hash(WeightFormat::kInt4, ScaleSearch::kSearch) == 804781830594652943u);
  CHECK(hash(WeightFormat::kInt8, ScaleSearch::kAbsmax) == 14895319869717582993u);
}

// SPDX-License-Identifier: Apache-2.0
//
// Each filter against a plain computation over all candidates, and what must not matter.

#include "lib/runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "lib/base/portable_math.h"
#include "tests/support/catch.h"

using colibri::check_sampler;
using colibri::draw_uniform;
using colibri::Sampler;
using colibri::SamplerParameters;
using colibri::Status;
using colibri::StatusCode;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> make_logits(uint32_t n, uint64_t seed) {
  std::vector<float> logits(n);
  for (uint32_t i = 0; i < n; ++i) {
    // Steps of a quarter make ties.
    logits[i] = std::floor(static_cast<float>(draw_uniform(seed, i)) * 48.0f) * 0.25f - 6.0f;
  }
  return logits;
}

int32_t choose(const std::vector<float> &logits, const SamplerParameters &parameters,
               uint64_t position = 0, const std::vector<int32_t> &recent = {}) {
  Sampler sampler(static_cast<uint32_t>(logits.size()), static_cast<uint32_t>(logits.size()));
  Sampler::Choice choice;
  REQUIRE(sampler.choose(logits, parameters, recent, position, false, &choice).is_ok());
  return choice.token;
}

// The definition, by sorting everything.
int32_t choose_plainly(const std::vector<float> &logits, const SamplerParameters &parameters,
                       uint64_t position) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return score(a) > score(b); });
  const auto weigh = [&](int32_t id) {
    return std::exp((static_cast<double>(score(id)) - score(order[0])) /
                    static_cast<double>(parameters.temperature));
  };
  if (parameters.top_k != 0 && parameters.top_k < order.size()) order.resize(parameters.top_k);
  const auto sum = [&] {
    return std::accumulate(order.begin(), order.end(), 0.0,
                           [&](double total, int32_t id) { return total + weigh(id); });
  };
  if (parameters.top_p != 0.0f) {
    const double wanted = static_cast<double>(parameters.top_p) * sum();
    double reached = 0.0;
    size_t n = 0;
    while (n < order.size() && reached < wanted) reached += weigh(order[n++]);
    order.resize(n);
  }
  while (order.size() > 1 && weigh(order.back()) < static_cast<double>(parameters.min_p)) {
    order.pop_back();
  }
  const double target = draw_uniform(parameters.seed, position) * sum();
  double passed = 0.0;
  for (const int32_t id : order) {
    passed += weigh(id);
    if (passed > target) return id;
  }
  return order.back();
}

}  // namespace

TEST_CASE("greedy takes the largest logit and the lower id of equal ones") {
  CHECK(choose({0.5f, 2.0f, 1.0f, 2.0f}, {}) == 1);
  CHECK(choose({-3.0f, -kInfinity, -1.0f}, {}) == 2);
}

TEST_CASE("sampling follows the definition for every combination of filters") {
  const std::vector<float> logits = make_logits(300, 5);
  for (const float temperature : {0.3f, 1.0f, 7.0f}) {
    for (const uint32_t top_k : {0u, 1u, 7u, 300u, 1000u}) {
      for (const float top_p : {0.0f, 0.1f, 0.9f, 1.0f}) {
        for (const float min_p : {0.0f, 0.2f, 1.0f}) {
          SamplerParameters parameters;
          parameters.temperature = temperature;
          parameters.top_k = top_k;
          parameters.top_p = top_p;
          parameters.min_p = min_p;
          for (uint64_t position = 0; position < 40; ++position) {
            parameters.seed = position * 7;
            CAPTURE(temperature, top_k, top_p, min_p, position);
            REQUIRE(choose(logits, parameters, position) ==
                    choose_plainly(logits, parameters, position));
          }
        }
      }
    }
  }
}

TEST_CASE("sampled frequencies approach the probabilities") {
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  SamplerParameters parameters;
  parameters.temperature = 1.0f;
  parameters.seed = 11;
  std::vector<int> counts(3);
  constexpr int kDraws = 16000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(choose(logits, parameters, static_cast<uint64_t>(i)))];
  }
  // Five standard deviations of the binomial distribution are about 300.
  CHECK(std::abs(counts[0] - kDraws / 8) < 300);
  CHECK(std::abs(counts[1] - kDraws / 4) < 300);
  CHECK(std::abs(counts[2] - kDraws * 5 / 8) < 300);
}

TEST_CASE("the draw depends on seed and position and on no earlier call") {
  const std::vector<float> logits = make_logits(100, 9);
  SamplerParameters parameters;
  parameters.temperature = 5.0f;
  parameters.seed = 3;
  Sampler sampler(100, 100);
  Sampler::Choice first, again;
  REQUIRE(sampler.choose(logits, parameters, {}, 17, false, &first).is_ok());
  for (uint64_t position = 0; position < 50; ++position) {
    REQUIRE(sampler.choose(logits, parameters, {}, position, false, &again).is_ok());
  }
  REQUIRE(sampler.choose(logits, parameters, {}, 17, false, &again).is_ok());
  CHECK(again.token == first.token);

  size_t n_different = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    parameters.seed = seed;
    n_different += choose(logits, parameters, 17) != first.token ? 1 : 0;
  }
  CHECK(n_different > 25);
}

TEST_CASE("the uniform draw is the documented hash") {
  // Values of the first release: a saved seed must give the same text in every later one.
  CHECK(draw_uniform(0, 0) == 0x1.e898c012f4d37p-1);
  CHECK(draw_uniform(7, 3) == 0x1.1ced2772df86cp-1);
  CHECK(draw_uniform(1, 0) != draw_uniform(0, 1));
  double sum = 0.0;
  for (uint64_t i = 0; i < 4096; ++i) {
    const double value = draw_uniform(i / 64, i % 64);
    REQUIRE(value >= 0.0);
    REQUIRE(value < 1.0);
    sum += value;
  }
  CHECK(std::abs(sum / 4096 - 0.5) < 0.03);
}

TEST_CASE("the repetition penalty counts a token once and only inside the window") {
  SamplerParameters parameters;
  parameters.repetition_penalty = 2.0f;
  parameters.repetition_window = 2;
  const std::vector<float> logits = {4.0f, 3.0f, 1.0f};
  CHECK(choose(logits, parameters, 0, {}) == 0);
  CHECK(choose(logits, parameters, 0, {0}) == 1);
  CHECK(choose(logits, parameters, 0, {0, 2, 2}) == 0);
  // Twice in the window is 4 / 2, not 4 / 4: still above 1.5.
  CHECK(choose({4.0f, 1.5f}, parameters, 0, {0, 0}) == 0);
  // Negative logits are multiplied.
  CHECK(choose({-1.0f, -1.5f}, parameters, 0, {0}) == 1);
  // Ids that are no candidates are passed over.
  CHECK(choose(logits, parameters, 0, {-1, 7}) == 0);
}

TEST_CASE("a repetition penalty keeps finite scores finite") {
  SamplerParameters parameters;
  parameters.repetition_penalty = 0.01f;
  parameters.temperature = 1.0f;
  CHECK(choose({3e38f, 0.0f}, parameters, 0, {0}) == 0);
  parameters.repetition_penalty = 100.0f;
  CHECK(choose({-3e38f, -kInfinity}, parameters, 0, {0}) == 0);
}

TEST_CASE("ids at or above the tokenizer's size are never chosen") {
  Sampler sampler(4, 2);
  Sampler::Choice choice;
  const std::vector<float> logits = {1.0f, 2.0f, 50.0f, std::nanf("")};
  for (const float temperature : {0.0f, 100.0f}) {
    SamplerParameters parameters;
    parameters.temperature = temperature;
    for (uint64_t position = 0; position < 50; ++position) {
      REQUIRE(sampler.choose(logits, parameters, {}, position, true, &choice).is_ok());
      REQUIRE(choice.token < 2);
      REQUIRE(std::isfinite(choice.logprob));
    }
  }
}

TEST_CASE("logits that are not finite are refused with the token's number") {
  Sampler sampler(3, 3);
  Sampler::Choice choice;
  for (const float bad : {std::nanf(""), kInfinity}) {
    const std::vector<float> logits = {0.0f, bad, 1.0f};
    const Status status = sampler.choose(logits, {}, {}, 0, false, &choice);
    CHECK(status.code() == StatusCode::kNonFinite);
    CHECK(std::string(status.message()).find("token 1") != std::string::npos);
  }
  const std::vector<float> none(3, -kInfinity);
  CHECK(sampler.choose(none, {}, {}, 0, false, &choice).code() == StatusCode::kNonFinite);
  CHECK(choice.token == -1);
}

TEST_CASE("the log-probability is that of the raw logits") {
  Sampler sampler(3, 3);
  Sampler::Choice choice;
  SamplerParameters parameters;
  parameters.temperature = 0.01f;
  parameters.top_k = 1;
  const std::vector<float> logits = {1.0f, 3.0f, 2.0f};
  REQUIRE(sampler.choose(logits, parameters, {}, 0, true, &choice).is_ok());
  CHECK(choice.token == 1);
  const double expected = 3.0 - std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0));
  CHECK(choice.logprob == Approx(expected).epsilon(1e-6));
  REQUIRE(sampler.choose(logits, parameters, {}, 0, false, &choice).is_ok());
  CHECK(choice.logprob == 0.0f);
}

TEST_CASE("sampler parameters outside their range are refused by name") {
  const auto message = [](auto set) {
    SamplerParameters parameters;
    set(parameters);
    const Status status = check_sampler(parameters);
    CHECK(status.code() == StatusCode::kArgument);
    return std::string(status.message());
  };
  using P = SamplerParameters;
  CHECK(message([](P &p) { p.temperature = -1.0f; }).find("temperature is -1") !=
        std::string::npos);
  CHECK(message([](P &p) { p.temperature = 101.0f; }).find("temperature") != std::string::npos);
  CHECK(message([](P &p) { p.temperature = 1e-4f; }).find("temperature") != std::string::npos);
  CHECK(message([](P &p) { p.temperature = std::nanf(""); }).find("temperature") !=
        std::string::npos);
  CHECK(message([](P &p) { p.top_p = 1.5f; }).find("top_p is 1.5") != std::string::npos);
  CHECK(message([](P &p) { p.min_p = -0.5f; }).find("min_p") != std::string::npos);
  CHECK(message([](P &p) { p.repetition_penalty = kInfinity; }).find("repetition_penalty") !=
        std::string::npos);
  CHECK(check_sampler({}).is_ok());
  P all{100.0f, 1u << 31, 1.0f, 1.0f, 1.5f, 64, ~0ull};
  CHECK(check_sampler(all).is_ok());
}

TEST_CASE("the portable exponential and logarithm are accurate") {
  for (double x = 0.0; x > -707.0; x -= 0.37) {
    REQUIRE(colibri::portable_exp(x) == Approx(std::exp(x)).epsilon(4e-15));
  }
  CHECK(colibri::portable_exp(0.0) == 1.0);
  CHECK(colibri::portable_exp(-1e300) == 0.0);
  for (double x = 1e-300; x < 1e300; x *= 3.7) {
    REQUIRE(colibri::portable_log(x) == Approx(std::log(x)).epsilon(4e-15));
  }
  CHECK(colibri::portable_log(1.0) == 0.0);
}

// SPDX-License-Identifier: Apache-2.0
//
// Sines and cosines over the range of angles that positions give, and the frequency list.

#include "lib/model/rotary.h"

#include <algorithm>
#include <cmath>

#include "tests/support/catch.h"

namespace colibri {
namespace {

RotaryConfig plain(float theta, uint32_t width) {
  RotaryConfig config;
  config.theta = theta;
  config.width = width;
  return config;
}

// The frequency, read off a position where the angle is small.
float frequency(const RotaryFrequencies &rotary, size_t index) {
  std::vector<float> cosines(rotary.width() / 2);
  std::vector<float> sines(rotary.width() / 2);
  rotary.fill(1, cosines.data(), sines.data());
  return std::atan2(sines[index], cosines[index]);
}

}  // namespace

TEST_CASE("sine and cosine are within one rounding of the double result up to a million radians") {
  double largest = 0;
  for (int i = 0; i < 400000; ++i) {
    const auto angle = static_cast<float>(i < 200000 ? i * 1e-4 : (i - 200000) * 5.123456);
    float sine = 0;
    float cosine = 0;
    sine_cosine(angle, &sine, &cosine);
    largest = std::max(largest, std::fabs(sine - std::sin(static_cast<double>(angle))));
    largest = std::max(largest, std::fabs(cosine - std::cos(static_cast<double>(angle))));
  }
  CHECK(largest <= 0x1p-25 * 1.001);  // half a unit in the last place of 1
}

TEST_CASE("angle zero gives exactly one and zero") {
  float sine = 1;
  float cosine = 0;
  sine_cosine(0.0f, &sine, &cosine);
  CHECK(sine == 0.0f);
  CHECK(cosine == 1.0f);
}

TEST_CASE("frequencies fall by theta to the power of minus two i over the width") {
  const RotaryFrequencies rotary(plain(10000.0f, 8));
  float cosines[4];
  float sines[4];
  rotary.fill(3, cosines, sines);
  const double angles[] = {3.0, 0.3, 0.03, 0.003};
  for (int i = 0; i < 4; ++i) {
    CHECK(cosines[i] == Approx(std::cos(angles[i])).epsilon(1e-6));
    CHECK(sines[i] == Approx(std::sin(angles[i])).epsilon(1e-6));
  }
}

TEST_CASE("the angle is the float32 product of position and frequency") {
  // At position 1000003 the product with 8e6^(-2/64) is rounded to a multiple of 1/16.
  const RotaryFrequencies rotary(plain(8e6f, 64));
  std::vector<float> cosines(32);
  std::vector<float> sines(32);
  rotary.fill(1000003, cosines.data(), sines.data());
  const auto frequency = static_cast<float>(1.0 / std::pow(8e6, 2.0 / 64));
  const float angle = 1000003.0f * frequency;
  CHECK(cosines[1] == Approx(std::cos(static_cast<double>(angle))).margin(1e-7));
}

TEST_CASE("yarn keeps fast frequencies, divides slow ones and scales cosine and sine") {
  RotaryConfig config = plain(10000.0f, 64);
  config.scaling = RotaryScaling::kYarn;
  config.factor = 40;
  config.original_positions = 4096;
  const RotaryFrequencies rotary(config);  // the values of DeepSeek V3
  CHECK(frequency(rotary, 0) == Approx(1.0));
  CHECK(frequency(rotary, 9) == Approx(0.074989).epsilon(1e-5));
  CHECK(frequency(rotary, 10) == Approx(0.056234).epsilon(1e-5));
  CHECK(frequency(rotary, 11) == Approx(0.039007).epsilon(1e-4));
  CHECK(frequency(rotary, 16) == Approx(0.0055).epsilon(1e-3));
  CHECK(frequency(rotary, 23) == Approx(3.3e-5).epsilon(2e-2));
  config.amplitude = 1.25f;
  float cosines[32];
  float sines[32];
  RotaryFrequencies(config).fill(0, cosines, sines);
  CHECK(cosines[5] == 1.25f);
}

TEST_CASE("yarn without truncation has a ramp between fractions of an index") {
  RotaryConfig config = plain(150000.0f, 64);
  config.scaling = RotaryScaling::kYarn;
  config.factor = 32;
  config.original_positions = 4096;
  config.truncates = false;
  const double low = 8.092779;  // the values of gpt_oss
  const double high = 17.398025;
  const RotaryFrequencies rotary(config);
  for (const size_t i : {8u, 9u, 17u, 18u}) {
    const double f = std::pow(150000.0, -2.0 * static_cast<double>(i) / 64);
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    CHECK(frequency(rotary, i) == Approx(f / 32 * ramp + f * (1 - ramp)).epsilon(1e-5));
  }
}

}  // namespace colibri

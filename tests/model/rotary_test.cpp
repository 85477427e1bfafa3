// SPDX-License-Identifier: Apache-2.0
//
// Sines and cosines over the range of angles that positions give, and the frequency list.

#include "lib/model/rotary.h"

#include <cmath>

#include "tests/support/catch.h"

namespace colibri {

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
  const RotaryFrequencies rotary(10000.0f, 8);
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
  const RotaryFrequencies rotary(8e6f, 64);
  std::vector<float> cosines(32);
  std::vector<float> sines(32);
  rotary.fill(1000003, cosines.data(), sines.data());
  const auto frequency = static_cast<float>(1.0 / std::pow(8e6, 2.0 / 64));
  const float angle = 1000003.0f * frequency;
  CHECK(cosines[1] == Approx(std::cos(static_cast<double>(angle))).margin(1e-7));
}

}  // namespace colibri

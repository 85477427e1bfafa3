// SPDX-License-Identifier: Apache-2.0
//
// Range reduction by a two-part pi/2 (the first part has 33 bits, so its product with a quotient
// below 2^20 is exact in double), then Taylor polynomials on |r| <= pi/4 whose first dropped term
// is below 2^-56.

#include "lib/model/rotary.h"

#include <algorithm>
#include <cmath>

#include "lib/base/portable_math.h"

namespace colibri {
namespace {

constexpr double kTwoOverPi = 0.63661977236758134308;
constexpr double kHalfPiHigh = 1.57079632673412561417e+00;  // 33 bits of pi/2
constexpr double kHalfPiLow = 6.07710050650619224932e-11;   // pi/2 - kHalfPiHigh

double sine_polynomial(double r) {
  const double s = r * r;
  double sum = -1.0 / 1307674368000.0;  // r^15 / 15!
  sum = sum * s + 1.0 / 6227020800.0;
  sum = sum * s - 1.0 / 39916800.0;
  sum = sum * s + 1.0 / 362880.0;
  sum = sum * s - 1.0 / 5040.0;
  sum = sum * s + 1.0 / 120.0;
  sum = sum * s - 1.0 / 6.0;
  return r + r * s * sum;
}

double cosine_polynomial(double r) {
  const double s = r * r;
  double sum = 1.0 / 20922789888000.0;  // r^16 / 16!
  sum = sum * s - 1.0 / 87178291200.0;
  sum = sum * s + 1.0 / 479001600.0;
  sum = sum * s - 1.0 / 3628800.0;
  sum = sum * s + 1.0 / 40320.0;
  sum = sum * s - 1.0 / 720.0;
  sum = sum * s + 1.0 / 24.0;
  sum = sum * s - 0.5;
  return 1.0 + s * sum;
}

// Share of the slowed frequency in each frequency of YaRN: 0 for those that turn often within the
// original positions, 1 for those that turn less than once.
class Ramp {
 public:
  explicit Ramp(const RotaryConfig &config) {
    const double last = static_cast<double>(config.width) - 1.0;
    low_ = correction(config, config.beta_fast);
    high_ = correction(config, config.beta_slow);
    if (config.truncates) {
      low_ = std::floor(low_);
      high_ = std::ceil(high_);
    }
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, last);
    if (low_ == high_) high_ += 0.001;
  }

  float at(uint32_t i) const {
    return static_cast<float>(std::clamp((i - low_) / (high_ - low_), 0.0, 1.0));
  }

 private:
  // The index of the frequency that turns `turns` times within the original positions.
  static double correction(const RotaryConfig &config, double turns) {
    constexpr double kTwoPi = 6.28318530717958647693;
    return config.width * portable_log(config.original_positions / (kTwoPi * turns)) /
           (2.0 * portable_log(static_cast<double>(config.theta)));
  }

  double low_;
  double high_;
};

}  // namespace

void sine_cosine(float angle, float *sine, float *cosine) noexcept {
  const double x = angle;
  const double quotient = std::nearbyint(x * kTwoOverPi);
  const double r = (x - quotient * kHalfPiHigh) - quotient * kHalfPiLow;
  const double s = sine_polynomial(r);
  const double c = cosine_polynomial(r);
  switch (static_cast<int64_t>(quotient) & 3) {
    case 0:
      *sine = static_cast<float>(s), *cosine = static_cast<float>(c);
      break;
    case 1:
      *sine = static_cast<float>(c), *cosine = static_cast<float>(-s);
      break;
    case 2:
      *sine = static_cast<float>(-s), *cosine = static_cast<float>(-c);
      break;
    default:
      *sine = static_cast<float>(-c), *cosine = static_cast<float>(s);
      break;
  }
}

RotaryFrequencies::RotaryFrequencies(const RotaryConfig &config)
    : frequencies_(config.width / 2), amplitude_(config.amplitude) {
  const double log_theta = portable_log(static_cast<double>(config.theta));
  for (uint32_t i = 0; i < config.width / 2; ++i) {
    const double power = log_theta * (2.0 * i / config.width);
    // portable_exp takes no positive argument; a theta below 1 gives frequencies above 1.
    frequencies_[i] =
        static_cast<float>(power >= 0.0 ? portable_exp(-power) : 1.0 / portable_exp(power));
  }
  if (config.scaling != RotaryScaling::kYarn) return;
  const Ramp ramp(config);
  for (uint32_t i = 0; i < config.width / 2; ++i) {
    const float f = frequencies_[i];
    const float share = ramp.at(i);
    const float slow = (f / config.factor) * share;
    const float fast = f * (1.0f - share);
    frequencies_[i] = slow + fast;
  }
}

void RotaryFrequencies::fill(uint32_t position, float *cosines, float *sines) const noexcept {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    sine_cosine(static_cast<float>(position) * frequencies_[i], &sines[i], &cosines[i]);
    cosines[i] *= amplitude_;
    sines[i] *= amplitude_;
  }
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding: frequencies of a width and cosines and sines of positions. The angle
// is the float32 product of position and frequency, as the reference computes it; sine and cosine
// come from own double arithmetic, so that they do not depend on the C library.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/snapshot/model_config.h"

namespace colibri {

// Positions stay below this, so that angles (frequencies are at most 1 for a theta of 1 or more)
// are in the range of sine_cosine() and positions are exact in float32. A slot never holds more.
constexpr uint32_t kMaxRotaryPositions = 1u << 21;

// sin and cos of a finite angle with |angle| <= 2^21, correctly rounded in all but rare cases.
void sine_cosine(float angle, float *sine, float *cosine) noexcept;

class RotaryFrequencies {
 public:
  RotaryFrequencies() = default;
  // f[i] = theta^(-2i / width), i < width / 2. kYarn: with lo and hi as architectures.md 1.3.5 (in
  // double), ramp r[i] and f[i] as float32, (f / factor) * r + f * (1 - r), each step rounded.
  explicit RotaryFrequencies(const RotaryConfig &config);

  uint32_t width() const noexcept { return static_cast<uint32_t>(frequencies_.size()) * 2; }
  // Writes width / 2 values each, multiplied by the amplitude.
  void fill(uint32_t position, float *cosines, float *sines) const noexcept;

 private:
  std::vector<float> frequencies_;
  float amplitude_ = 1;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// exp and log in double, from explicit IEEE operations alone: rotary frequencies and sampled tokens
// must not depend on which libm the host happens to load. Accurate to about 1e-15 relative; not
// meant for hot loops over tensors.

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace colibri {

// e to the power x for finite x <= 0; 0 below -708 instead of a denormal number.
inline double portable_exp(double x) noexcept {
  if (!(x > -708.0)) return 0.0;
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0x1.62e42fee00000p-1;  // the low 21 bits of ln 2 are in kLn2Low
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const double power = std::floor(x * kLog2E + 0.5);
  const double rest = (x - power * kLn2High) - power * kLn2Low;  // |rest| <= ln(2) / 2
  // 1 / n! for n = 13 .. 0: the first term left out is below 2^-57 of the sum.
  constexpr double kTerms[] = {1.0 / 6227020800.0,
                               1.0 / 479001600.0,
                               1.0 / 39916800.0,
                               1.0 / 3628800.0,
                               1.0 / 362880.0,
                               1.0 / 40320.0,
                               1.0 / 5040.0,
                               1.0 / 720.0,
                               1.0 / 120.0,
                               1.0 / 24.0,
                               1.0 / 6.0,
                               1.0 / 2.0,
                               1.0,
                               1.0};
  double sum = 0.0;
  for (const double term : kTerms) sum = sum * rest + term;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(power) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// Natural logarithm of a normal x > 0.
inline double portable_log(double x) noexcept {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrtHalf = 0.70710678118654752;
  const auto bits = std::bit_cast<uint64_t>(x);
  int64_t exponent = static_cast<int64_t>((bits >> 52) & 0x7FF) - 1022;
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFu) | 0x3FE0000000000000u);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2.0;
    --exponent;
  }
  // log(m) = 2 artanh((m - 1) / (m + 1)); the argument is below 0.172.
  const double argument = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = argument * argument;
  double sum = 0.0;
  for (int n = 23; n >= 1; n -= 2) sum = sum * square + 1.0 / static_cast<double>(n);
  return static_cast<double>(exponent) * kLn2 + 2.0 * argument * sum;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that a key decides: the same on every machine, in every version, and for any
// division of the work, as each part of it has a key of its own. xoshiro256**, seeded by
// splitmix64; fast enough to fill memory, and no secret.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace colibri {

class RandomStream {
 public:
  // The order of the numbers of a key counts.
  explicit RandomStream(std::initializer_list<uint64_t> key) noexcept;

  uint64_t next() noexcept;
  // In [0, n), n not 0.
  uint32_t next_below(uint32_t n) noexcept;
  // Of a normal distribution with mean 0 and variance 1.
  double next_normal() noexcept;
  // Uniform bytes; `bytes` is a multiple of 8.
  void fill(uint8_t *place, size_t bytes) noexcept;

 private:
  uint64_t state_[4];
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

}  // namespace colibri

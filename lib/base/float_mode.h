// SPDX-License-Identifier: Apache-2.0
//
// Keeps the bits of results independent of the host's floating-point mode: inside the scope the
// calling thread rounds to nearest, with subnormals, all exceptions masked; the host's mode comes
// back at the end.

#pragma once

#include <cstdint>

namespace colibri {

class ScopedFloatMode {
 public:
  ScopedFloatMode() noexcept;
  ~ScopedFloatMode();
  ScopedFloatMode(const ScopedFloatMode &) = delete;
  ScopedFloatMode &operator=(const ScopedFloatMode &) = delete;

 private:
  uint32_t saved_;
};

}  // namespace colibri

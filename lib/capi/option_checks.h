// SPDX-License-Identifier: Apache-2.0
//
// Checks that fields of all option structs share; every message names the field, its value and its
// range.

#pragma once

#include <cstdint>

#include "lib/base/status.h"

namespace colibri {

// `value` in 1..largest, or `default_value` for 0. Throws Error(kArgument).
inline uint32_t in_range(const char *field, uint32_t value, uint32_t default_value,
                         uint32_t largest) {
  if (value == 0) return default_value;
  if (value <= largest) return value;
  throw_error(StatusCode::kArgument, "%s is %u; must be 1..%u, or 0 for the default", field, value,
              largest);
}

// Throws Error(kArgument) for a value that is neither 0 nor 1.
inline bool read_flag(const char *field, uint32_t value) {
  if (value <= 1) return value == 1;
  throw_error(StatusCode::kArgument, "%s is %u; must be 0 or 1", field, value);
}

// For fields that later versions may give a meaning. Throws Error(kArgument).
inline void require_zero(const char *field, uint32_t value) {
  if (value != 0) throw_error(StatusCode::kArgument, "%s is %u; must be 0", field, value);
}

}  // namespace colibri

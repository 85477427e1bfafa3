// SPDX-License-Identifier: Apache-2.0
//
// How the reference kernels read one scale of a weight matrix, of any scale type. Static, as kernel
// objects hold no weak symbols.

#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu/kernels.h"

namespace colibri::cpu {

// The scale of one column (`lane` of `panel`) for one group of depths.
static inline float load_scale_ref(const GemmWeights &weights, size_t panel, size_t group,
                                   size_t lane) noexcept {
  const uint8_t *scales =
      weights.scales + panel * weights.scale_panel_bytes + group * weights.scale_group_bytes;
  uint32_t bits = 0;
  if (weights.has_bf16_scales) {
    uint16_t half;
    memcpy(&half, scales + 2 * lane, sizeof half);
    bits = static_cast<uint32_t>(half) << 16;
  } else {
    memcpy(&bits, scales + 4 * lane, sizeof bits);
  }
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// The same of an MXFP4 matrix: 2^(byte - 127), NaN for 255.
static inline float load_exponent_ref(const GemmWeights &weights, size_t panel, size_t group,
                                      size_t lane) noexcept {
  const uint8_t *scales =
      weights.scales + panel * weights.scale_panel_bytes + group * weights.scale_group_bytes;
  return scales[lane] == 255 ? NAN : ldexpf(1.0f, scales[lane] - 127);
}

}  // namespace colibri::cpu

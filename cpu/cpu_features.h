// SPDX-License-Identifier: Apache-2.0
//
// What this processor and its operating system offer, asked with CPUID and XGETBV when called; no
// state is kept.

#pragma once

#include <cstdint>
#include <string>

namespace colibri::cpu {

enum CpuFeature : uint32_t {
  kFeatureAvx2 = 1u << 0,
  kFeatureFma = 1u << 1,
  kFeatureF16c = 1u << 2,
  kFeatureAvx512F = 1u << 3,
  kFeatureAvx512Bw = 1u << 4,
  kFeatureAvx512Dq = 1u << 5,
  kFeatureAvx512Vl = 1u << 6,
  kFeatureAvx512Vnni = 1u << 7,
  kFeatureGfni = 1u << 8,
  // No instruction but a habit: reads four streams at once faster than one that software reads
  // ahead. Known of AMD's Zen (docs/performance.md).
  kFeatureManyStreams = 1u << 9,
  // The same if software reads each of the four ahead. Known of Intel's Xeons since Sapphire
  // Rapids.
  kFeatureStreamsAhead = 1u << 10,
};
// What decides how fast a kernel is here, not whether it runs.
constexpr uint32_t kHabits = kFeatureManyStreams | kFeatureStreamsAhead;

// A feature counts only if the operating system saves the registers it uses.
uint32_t detect_cpu_features() noexcept;
// "avx2 fma f16c" for messages; "none" for 0.
std::string describe_cpu_features(uint32_t features);

}  // namespace colibri::cpu

// SPDX-License-Identifier: Apache-2.0
//
// CPUID and XGETBV. A bit of CPUID says what the processor can do; XCR0 says which registers the
// operating system saves at a switch of threads, without which the instructions may not be used.

#include "cpu/cpu_features.h"

#if COLIBRI_X86
#include <cpuid.h>
#endif

namespace colibri::cpu {
namespace {

struct FeatureName {
  CpuFeature feature;
  const char *name;
};
constexpr FeatureName kNames[] = {
    {kFeatureAvx2, "avx2"},
    {kFeatureFma, "fma"},
    {kFeatureF16c, "f16c"},
    {kFeatureAvx512F, "avx512f"},
    {kFeatureAvx512Bw, "avx512bw"},
    {kFeatureAvx512Dq, "avx512dq"},
    {kFeatureAvx512Vl, "avx512vl"},
    {kFeatureAvx512Vnni, "avx512vnni"},
    {kFeatureGfni, "gfni"},
    {kFeatureManyStreams, "many-streams"},
    {kFeatureStreamsAhead, "streams-ahead"},
};

}  // namespace

#if COLIBRI_X86

namespace {

bool has_bit(uint32_t word, int bit) {
  return ((word >> bit) & 1u) != 0;
}

struct Vendor {
  uint32_t ebx, ecx, edx;
};
constexpr Vendor kAmd = {signature_AMD_ebx, signature_AMD_ecx, signature_AMD_edx};
constexpr Vendor kIntel = {signature_INTEL_ebx, signature_INTEL_ecx, signature_INTEL_edx};

bool is_made_by(const Vendor &vendor) {
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(0, &eax, &ebx, &ecx, &edx) == 0) return false;
  return ebx == vendor.ebx && ecx == vendor.ecx && edx == vendor.edx;
}

uint64_t read_xcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

}  // namespace

uint32_t detect_cpu_features() noexcept {
  constexpr uint64_t kXmmYmm = 0x06;
  constexpr uint64_t kZmm = 0xE6;
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const bool has_xgetbv = has_bit(ecx, 27);
  const bool has_avx = has_bit(ecx, 28);
  if (!has_xgetbv || !has_avx) return 0;
  const uint64_t xcr0 = read_xcr0();
  if ((xcr0 & kXmmYmm) != kXmmYmm) return 0;
  uint32_t features = 0;
  if (is_made_by(kAmd)) features |= kFeatureManyStreams;
  if (has_bit(ecx, 12)) features |= kFeatureFma;
  if (has_bit(ecx, 29)) features |= kFeatureF16c;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  if (has_bit(ebx, 5)) features |= kFeatureAvx2;
  // AVX512-FP16 came with the generation that is meant.
  if (has_bit(edx, 23) && is_made_by(kIntel)) features |= kFeatureStreamsAhead;
  if ((xcr0 & kZmm) != kZmm) return features;
  if (has_bit(ebx, 16)) features |= kFeatureAvx512F;
  if (has_bit(ebx, 17)) features |= kFeatureAvx512Dq;
  if (has_bit(ebx, 30)) features |= kFeatureAvx512Bw;
  if (has_bit(ebx, 31)) features |= kFeatureAvx512Vl;
  if (has_bit(ecx, 11)) features |= kFeatureAvx512Vnni;
  if (has_bit(ecx, 8)) features |= kFeatureGfni;
  return features;
}

#else

uint32_t detect_cpu_features() noexcept {
  return 0;
}

#endif

std::string describe_cpu_features(uint32_t features) {
  std::string text;
  for (const FeatureName &row : kNames) {
    if ((features & row.feature) == 0) continue;
    if (!text.empty()) text += ' ';
    text += row.name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace colibri::cpu

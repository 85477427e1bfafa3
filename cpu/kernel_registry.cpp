// SPDX-License-Identifier: Apache-2.0
//
// The table of kernel sets and the choice of a row.

#include "cpu/kernel_registry.h"

#include <string>

#include "cpu/cpu_features.h"
#include "lib/base/status.h"

namespace colibri::cpu {
namespace {

#if COLIBRI_X86
constexpr uint32_t kAvx2Features = kFeatureAvx2 | kFeatureFma | kFeatureF16c;
constexpr uint32_t kAvx512Features = kAvx2Features | kFeatureAvx512F | kFeatureAvx512Bw |
                                     kFeatureAvx512Dq | kFeatureAvx512Vl | kFeatureAvx512Vnni;
#endif

// A set for further instructions (AMX, AVX-VNNI) is one more row here, above the sets that it beats,
// with its feature in cpu_features.h and its flags in CMakeLists.txt.
constexpr KernelRow kRows[] = {
#if COLIBRI_X86
    {"avx512", kAvx512Features | kFeatureManyStreams, &kKernelSetAvx512Streams},
    {"avx512", kAvx512Features | kFeatureGfni | kFeatureStreamsAhead,
     &kKernelSetAvx512StreamsAhead},
    {"avx512", kAvx512Features, &kKernelSetAvx512},
    {"avx2", kAvx2Features | kFeatureManyStreams, &kKernelSetAvx2Streams},
    {"avx2", kAvx2Features | kFeatureStreamsAhead, &kKernelSetAvx2StreamsAhead},
    {"avx2", kAvx2Features, &kKernelSetAvx2},
#endif
    {"ref", 0, &kKernelSetRef},
};

std::string list_names() {
  std::string text;
  std::string_view last;
  for (const KernelRow &row : kRows) {
    if (row.name == last) continue;
    last = row.name;
    if (!text.empty()) text += ", ";
    text += row.name;
  }
  return text;
}

}  // namespace

std::span<const KernelRow> kernel_rows() noexcept {
  return kRows;
}

const KernelRow &choose_kernel_row(std::string_view name) {
  const uint32_t features = detect_cpu_features();
  const KernelRow *refused = nullptr;  // the row of this name that needs the least
  for (const KernelRow &row : kRows) {
    if (!name.empty() && name != row.name) continue;
    if ((row.needed_features & ~features) == 0) return row;
    refused = &row;
  }
  if (refused != nullptr) {
    throw_error(
        StatusCode::kUnsupported,
        "kernel set '%s' needs CPU features that are missing here: %s; leave the name empty "
        "for the best set of this CPU",
        refused->name, describe_cpu_features(refused->needed_features & ~features).c_str());
  }
  throw_error(StatusCode::kArgument, "kernel set '%.*s' is not known; known are: %s",
              static_cast<int>(name.size() < 64 ? name.size() : 64), name.data(),
              list_names().c_str());
}

}  // namespace colibri::cpu

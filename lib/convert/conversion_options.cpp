// SPDX-License-Identifier: Apache-2.0
//
// The names of formats are those of the command line and of manifests.

#include "lib/convert/conversion_options.h"

#include "lib/base/status.h"

namespace colibri {
namespace {

const char *target_name(TargetFormat target) {
  switch (target) {
    case TargetFormat::kKeep:
      return "keep";
    case TargetFormat::kBF16:
      return "bf16";
    case TargetFormat::kInt8:
      return "int8";
    case TargetFormat::kInt4:
      return "int4";
  }
  return "unknown";
}

}  // namespace

void check_options(const ConversionOptions &options) {
  if (options.experts == TargetFormat::kBF16) {
    throw_error(StatusCode::kArgument,
                "experts is bf16; must be int4, int8, or keep, which leaves BF16 experts as they "
                "are");
  }
  if (options.embedding == TargetFormat::kInt4) {
    throw_error(StatusCode::kArgument, "embedding is int4; must be keep, bf16 or int8");
  }
  if (options.head == TargetFormat::kInt4) {
    throw_error(StatusCode::kArgument, "head is int4; must be keep, bf16 or int8");
  }
  if (options.group != 32 && options.group != 64 && options.group != 128) {
    throw_error(StatusCode::kArgument, "group is %u; must be 32, 64 or 128", options.group);
  }
}

PackedOptions describe_options(const ConversionOptions &options) {
  PackedOptions described;
  described.experts = target_name(options.experts);
  described.dense = target_name(options.dense);
  described.embedding = target_name(options.embedding);
  described.head = target_name(options.head);
  described.group = options.group;
  described.scales = options.search == ScaleSearch::kSearch ? "search" : "absmax";
  return described;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// What a host may choose of a conversion.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/convert/quantiser.h"
#include "lib/snapshot/packed_manifest.h"

namespace colibri {

// What becomes of matrices that are stored as floats or FP8. Matrices that are integers already are
// repacked as they are, whatever is asked: quantising twice only loses.
enum class TargetFormat : uint8_t {
  kKeep,  // as the source has it; experts are packed without a change of a value
  kBF16,
  kInt8,
  kInt4,
};

struct ConversionOptions {
  TargetFormat experts = TargetFormat::kInt4;
  // Attention, dense MLPs, shared experts. Routers, norms, biases and the indexer's weights_proj
  // stay as the source has them.
  TargetFormat dense = TargetFormat::kInt8;
  TargetFormat embedding = TargetFormat::kKeep;
  TargetFormat head = TargetFormat::kKeep;
  uint32_t group = 64;  // 32, 64 or 128
  ScaleSearch search = ScaleSearch::kSearch;
  uint32_t n_threads = 1;  // the caller's included
  bool resumes = false;
  uint64_t max_shard_bytes = 4ull << 30;  // a single larger tensor makes a larger shard
  // (done, total) bytes of the result, each counted twice: written, then read back. false stops.
  // Called on the caller's thread.
  std::function<bool(uint64_t, uint64_t)> progress;
};

// Throws Error(kArgument), with the value and what is taken, for what no conversion can do: experts
// as BF16, embedding or head as INT4, another group.
void check_options(const ConversionOptions &options);

// As the manifest has them.
PackedOptions describe_options(const ConversionOptions &options);

}  // namespace colibri

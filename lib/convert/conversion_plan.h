// SPDX-License-Identifier: Apache-2.0
//
// What becomes of each tensor of a source: the list of results, decided before anything is written.
// The same source and options give the same list.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/convert/conversion_options.h"
#include "lib/convert/packed_writer.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

// How one result is made.
struct ConversionStep {
  enum class Kind : uint8_t {
    kCopy,    // bytes of one stored tensor as they are (plain tensors are checked for NaN and Inf
              // where the model uses them)
    kRound,   // one plain matrix to BF16, row-major
    kPack,    // one matrix, packed
    kExpert,  // gate, up, down, packed, and their biases if there are any
    kHeads,   // kv_b_proj, halved, transposed and quantised head by head
  };
  Kind kind = Kind::kCopy;
  std::string copied_name;            // kCopy: the stored tensor
  std::vector<WeightSource> sources;  // the others: one, or the parts of an expert
};

struct ConversionPlan {
  PackedWriterPlan output;            // destination not set
  std::vector<ConversionStep> steps;  // one per output.tensors
  uint64_t n_kept_matrices = 0;       // integer matrices, whose values and scales stay as they are
  uint64_t n_quantised_matrices = 0;
};

// Throws Error: kUnsupported if the source is a packed snapshot already.
ConversionPlan plan_conversion(const Snapshot &source, const ConversionOptions &options);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// From a snapshot that the library reads to a packed one, tensor by tensor. Peak memory is the
// stored bytes of one matrix, the packed bytes of one expert or matrix, and a few rows per thread.

#pragma once

#include <cstdint>
#include <string>

#include "lib/convert/conversion_options.h"

namespace colibri {

struct ConversionReport {
  uint64_t source_bytes = 0;  // of all tensors of the source
  uint64_t result_bytes = 0;  // tensors of the result
  uint64_t n_tensors = 0;     // of the result
  uint64_t n_kept_matrices = 0;
  uint64_t n_quantised_matrices = 0;
  uint64_t n_resumed_tensors = 0;  // were there already
  // Relative error of what was quantised: sqrt(sum (w - q)^2 / sum w^2) over all of it. Tensors
  // that were there already do not count.
  double relative_error = 0;
};

// `source` as for Snapshot::open; never written to. Throws Error as PackedWriter and Snapshot do,
// and: kNonFinite for a weight that is NaN or infinite (tensor, row and column are named; the
// partial folder stays), kArgument if destination lies inside source or is it, kCancelled.
ConversionReport convert_snapshot(const std::string &source, const std::string &destination,
                                  const ConversionOptions &options);

}  // namespace colibri

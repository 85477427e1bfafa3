// SPDX-License-Identifier: Apache-2.0
//
// Compares every tensor and side file of a packed snapshot with the checksums of its manifest.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace colibri {

struct VerifyReport {
  uint64_t n_tensors = 0;
  uint64_t n_files = 0;
  uint64_t bytes = 0;
  // Names of tensors, then of side files, that differ from their checksums or are absent.
  std::vector<std::string> damaged;
};

// Reads everything once, in the order of the files. Throws Error: kUnsupported if there are no
// checksums (no packed snapshot), the errors of TensorIndex::open, kCancelled if progress returns
// false. Damage is a result, not an error; a tensor that cannot be read counts as damaged.
VerifyReport verify_snapshot(const std::string &path, uint32_t n_threads,
                             const std::function<bool(uint64_t, uint64_t)> &progress);

}  // namespace colibri

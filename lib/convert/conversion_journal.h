// SPDX-License-Identifier: Apache-2.0
//
// The journal of an unfinished conversion: which tensors are on the disk, and what the conversion
// is bound to. Text, only ever appended to; each line ends with its own checksum, so that what a
// loss of power left behind is cut off at the first line that is not sound:
//
//   colibri-conversion 1 source <hex> options <text> tensors <hex> files <hex> <check>
//   done <tensor number> <checksum> <check>
//   again <tensor number> <check>          it was found damaged and counts as not done
//
// It is no part of a finished snapshot.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file_writer.h"
#include "lib/snapshot/packed_manifest.h"

namespace colibri {

// What a conversion works from; a journal of another one is refused.
struct ConversionBinding {
  uint64_t source_identity = 0;
  PackedOptions options;
  uint64_t tensors_hash = 0;  // of names, types and places of all tensors
  uint64_t files_hash = 0;    // of names and contents of all side files
};

struct FinishedTensor {
  size_t tensor = 0;  // its number in the list
  uint64_t checksum = 0;
};

class ConversionJournal {
 public:
  // Takes up the journal at `path`, or begins one if there is none or its first line is torn.
  // Throws Error: kMismatch if it is bound to something else (which, is said); kIo.
  ConversionJournal(const std::string &path, const ConversionBinding &binding, size_t n_tensors);

  // Checksum of each tensor that is done.
  const std::vector<std::optional<uint64_t>> &checksums() const noexcept { return checksums_; }
  // These tensors are on the disk. Once it returns, that is not forgotten. Throws Error(kIo).
  void record(std::span<const FinishedTensor> finished);
  // A tensor counts as not done from now on.
  void retract(size_t tensor);

 private:
  void read_lines(std::string_view text, const ConversionBinding &binding);
  bool read_line(std::string_view line);
  void append(const std::string &lines);

  std::string path_;
  std::vector<std::optional<uint64_t>> checksums_;
  std::unique_ptr<FileWriter> file_;
  uint64_t end_ = 0;  // of the last sound line
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Writes a packed snapshot: a list of tensors whose sizes are known, cut into shards; contents come
// in any order; the folder appears under its name when everything is there, or not at all.
//
// Work happens in DESTINATION.partial beside the destination: shards at their final size, and a
// journal (conversion_journal.h) with one line per finished tensor, written after the tensor's
// bytes are on disk. So a killed conversion goes on where it was: a tensor without a sound line is
// written again. The journal's first line binds it to source and options.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/convert/conversion_options.h"
#include "lib/snapshot/packed_manifest.h"
#include "lib/snapshot/safetensors.h"

namespace colibri {

// One tensor of the result.
struct OutputTensor {
  std::string name;
  std::string type_name;        // safetensors: "U8" for packed ones
  std::vector<uint64_t> shape;  // packed: [bytes]
  uint64_t bytes = 0;           // packed: a multiple of kPackedAlignment
  std::optional<PackedLayout> layout;
  // Not empty: the format that a `colibri.fmt` stamp of the source claims for this plain tensor. It
  // is stamped again, because byte counts alone do not always tell formats apart.
  std::string stamp = {};
};

// A tensor of packed matrices, as long as its layout says.
OutputTensor packed_tensor(const std::string &name, const PackedLayout &layout);

struct PackedWriterPlan {
  std::string destination;  // the folder to be; must not exist
  uint64_t source_identity = 0;
  // What else tells that a source has changed, such as the times of its files. The journal is bound
  // to it; the result does not have it.
  uint64_t source_state = 0;
  std::string model_type;
  PackedOptions options;
  std::vector<OutputTensor> tensors;  // packed ones first, so that all of them are aligned
  // Side files: name and content, written as they are.
  std::vector<std::pair<std::string, std::vector<uint8_t>>> files;
  uint64_t max_shard_bytes = 0;  // 0: one file
  // Finished tensors are recorded together, as bringing each to the disk by itself takes longer
  // than writing it: when there are so many bytes of them, when 2 s have passed, and at the end.
  uint64_t max_unrecorded_bytes = 256ull << 20;
};

class PackedWriter {
 public:
  // Makes the partial folder, or takes it up again if there is one and `resumes`. Throws Error:
  // kArgument if the destination exists, or if a partial folder exists and `resumes` is not set
  // (the message names resuming and the folder to remove); kMismatch if it belongs to another source or other options (which, is named) or holds files of something
  // else; kBusy if another process works on it; kIo, with needed and free bytes if the disk is too
  // small; and as cut_into_shards().
  PackedWriter(PackedWriterPlan plan, bool resumes);
  ~PackedWriter();  // records what is finished, leaves the partial folder for a later resume
  PackedWriter(const PackedWriter &) = delete;
  PackedWriter &operator=(const PackedWriter &) = delete;

  const PackedWriterPlan &plan() const noexcept;
  uint64_t total_bytes() const noexcept;  // of all tensors
  uint64_t done_bytes() const noexcept;
  bool is_done(size_t tensor) const noexcept;  // index into plan().tensors

  // Bytes of one tensor that is not done, from its start, in one or more pieces of any size;
  // finish_tensor() after the last. One tensor at a time, from one thread. Throws Error: kIo;
  // kInternal for bytes that are too many or too few, or of another tensor.
  void append(size_t tensor, std::span<const uint8_t> bytes);
  void finish_tensor(size_t tensor);

  // Reads everything back and compares checksums, writes headers and side files, syncs, and gives
  // the folder its name. `progress`: (done, total) bytes read back, on this thread; false throws
  // Error(kCancelled). Error(kIo) names a tensor whose bytes came back different; a resumed writer
  // writes that one again. kState if a tensor is not done. After success only is_done() and the
  // like may be called.
  void publish(const std::function<bool(uint64_t, uint64_t)> &progress);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace colibri

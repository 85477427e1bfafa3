// SPDX-License-Identifier: Apache-2.0
//
// How a packed snapshot is cut into shards, and the header of each. Everything here follows from
// the plan alone: the length of a header does not depend on the checksums in it, so the place of
// every tensor is known before the first is written.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/convert/packed_writer.h"
#include "lib/snapshot/packed_manifest.h"

namespace colibri {

// One file: some consecutive tensors of the plan.
struct ShardPlan {
  std::string name;  // "model-00001-of-00003.safetensors"
  size_t first_tensor = 0;
  size_t n_tensors = 0;
  uint64_t data_begin = 0;  // a multiple of kPackedAlignment; the header ends here
  uint64_t file_bytes = 0;
};

// A shard ends before the tensor that would carry it over plan.max_shard_bytes; a bound that would
// give more than kMaxShards files is doubled until it does not. Throws Error: kInternal for a plan
// that is none (a name twice; a packed tensor behind a plain one, or whose bytes are not those of
// its layout), kUnsupported if a header would exceed what safetensors allows.
std::vector<ShardPlan> cut_into_shards(const PackedWriterPlan &plan);

// Bytes of all files of the snapshot, side files included.
uint64_t sum_file_bytes(const PackedWriterPlan &plan, const std::vector<ShardPlan> &shards);

// Matrices and bytes by format; plain tensors of other types than F32, BF16, F16 are not counted.
std::map<std::string, FormatBytes> count_formats(const std::vector<OutputTensor> &tensors);

// The bytes in front of the data: length, JSON, spaces up to data_begin. `tensor_checksums` has one
// number for each tensor of the plan, `file_checksums` for each side file.
std::string shard_header(const PackedWriterPlan &plan, const ShardPlan &shard,
                         std::span<const uint64_t> tensor_checksums,
                         std::span<const uint64_t> file_checksums);

}  // namespace colibri

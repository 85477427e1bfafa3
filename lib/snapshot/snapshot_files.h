// SPDX-License-Identifier: Apache-2.0
//
// Which files of a folder make up a snapshot, and which are missing, from names and the index file
// alone.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colibri {

constexpr size_t kMaxShards = 512;

struct SnapshotFiles {
  std::string directory;
  std::vector<std::string> shards;  // present, plain names in bytewise order
  std::string missing;              // names or numbers of absent shards; empty if there are none
  // Tensor name and shard name as the index file has them, in its order; empty without an index
  // file.
  std::vector<std::pair<std::string, std::string>> weight_map;
};

// The common download cache links every file of a folder to a sibling folder, so links are followed
// unless a host is strict.
enum class LinkPolicy : uint8_t {
  kFollow,
  kInside,  // a link that leads out of the snapshot's folder is refused
};

// Throws Error(kFormat) with the name, not the target, of the first file of the snapshot (shards,
// index, configs, tokenizer) that is a link to outside of its folder.
void require_inside(const SnapshotFiles &files);

// See TensorIndex::open for what `path` may be and what is thrown. Absent shards are reported, not
// thrown.
SnapshotFiles locate_snapshot_files(const std::string &path);

// "found 3 shards: model-00001-of-00004 .. model-00004-of-00004"; the suffix is left out.
std::string describe_shards(const std::vector<std::string> &shards);

// "2, 5-7" for ascending numbers.
std::string describe_ranges(const std::vector<uint64_t> &ascending);

}  // namespace colibri

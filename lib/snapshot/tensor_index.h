// SPDX-License-Identifier: Apache-2.0
//
// TensorIndex: all tensors of a snapshot folder by name. Opens each shard once and parses its
// header once.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/file.h"
#include "lib/snapshot/hash.h"
#include "lib/snapshot/packed_manifest.h"
#include "lib/snapshot/safetensors.h"
#include "lib/snapshot/snapshot_files.h"

namespace colibri {

// Metadata key of the container's stamps: a JSON object of tensor names and names of formats.
constexpr const char *kFormatStampKey = "colibri.fmt";

struct TensorInfo {
  uint32_t file;  // index into TensorIndex::files()
  TensorType type;
  std::vector<uint64_t> shape;
  uint64_t offset;
  uint64_t bytes;
  int32_t layout = -1;  // index into TensorIndex::manifest()->layouts; -1: not packed
  // Of the bytes; packed snapshots only.
  std::optional<uint64_t> checksum = std::nullopt;
};

struct ShardFile {
  std::string name;  // plain file name
  std::unique_ptr<Reader> reader;
  uint64_t header_hash;
  uint64_t n_tensors;
};

// Hashes names in the tables of a TensorIndex. The seed is an address, so that nobody can prepare
// names that collide. Not noexcept on purpose: libstdc++ then keeps each hash beside its name
// instead of computing it again.
struct TensorNameHash {
  using is_transparent = void;
  uint64_t seed = hash_bytes({}, reinterpret_cast<uintptr_t>(this));
  size_t operator()(std::string_view name) const { return hash_bytes(name, seed); }
};

class TensorIndex {
 public:
  // `path`: the folder, its model.safetensors.index.json, config.json, or any shard. Which files
  // belong: with an index file, exactly the shards it names (each one plain file name inside the
  // folder: no separator, "..", absolute path or zero byte; the message does not tell what exists
  // outside), and each tensor must be where the index says; files named out-*.safetensors beside it
  // count as well. Without one, every *.safetensors of the folder, in bytewise order of names (at
  // most 512). Throws Error:
  // kNotFound    no such path, or no safetensors file in it
  // kIncomplete  the index names shards that are absent, or numbered shards (-00001-of-00003,
  //              out-00000) have gaps: the message has the missing numbers, the shards found and,
  //              if an index gives it, the first absent tensor
  // kFormat      a bad header (safetensors.h); the same tensor in two files (names both); format
  //              stamps that contradict each other; a packed manifest that is not sound, does not
  //              list exactly the tensors of its shard, or lists a packed tensor whose type, size
  //              or place does not fit its layout; shards whose manifests are not of one conversion
  // kUnsupported a packed manifest of another version
  static TensorIndex open(const std::string &path);
  // The shards of `files` that are present; absent ones are left to the caller, who can say what
  // they lack.
  static TensorIndex open_present(const SnapshotFiles &files);
  // For tests and hosts that supply readers: every reader is a shard.
  static TensorIndex from_readers(std::vector<std::unique_ptr<Reader>> readers);

  TensorIndex(TensorIndex &&) noexcept = default;
  TensorIndex &operator=(TensorIndex &&) noexcept = default;

  const TensorInfo *find(std::string_view name) const noexcept;  // nullptr if absent
  size_t size() const noexcept { return tensors_.size(); }
  const std::vector<ShardFile> &files() const noexcept { return files_; }
  // Name of the file that holds a tensor, for messages.
  const std::string &file_of(const TensorInfo &info) const noexcept {
    return files_[info.file].name;
  }
  const std::string &directory() const noexcept { return directory_; }
  // All names in bytewise order; for censuses and `inspect`. Valid while the index lives.
  std::vector<std::string_view> names() const;
  // Metadata of all shards: key to value, without packed manifests. Shards may carry different
  // values of a key; the first one stays.
  const std::unordered_map<std::string, std::string> &metadata() const noexcept {
    return metadata_;
  }
  // Format name that a `colibri.fmt` stamp of any shard claims for a tensor; empty if there is
  // none.
  std::string_view stamped_format(std::string_view name) const noexcept;
  // A packed snapshot: every shard has a manifest.
  bool is_packed() const noexcept { return manifest_.has_value(); }
  // What the manifests of all shards say together, nullptr without any: the facts, which are the
  // same in all of them, and the layouts of all. Its list of tensors is empty: what it says of a
  // tensor is kept with the tensor.
  const PackedManifest *manifest() const noexcept { return manifest_ ? &*manifest_ : nullptr; }
  // How a tensor is packed; nullptr if there is no such tensor or it is stored as safetensors says.
  const PackedLayout *packed_layout(std::string_view name) const noexcept;
  // Identity of the snapshot: hash over file names, sizes and header hashes.
  uint64_t identity_hash() const noexcept { return identity_hash_; }
  // Headers parsed since open; equals files().size(), proved by a test.
  uint64_t n_headers_parsed() const noexcept { return n_headers_parsed_; }

  // Reads the whole tensor into `destination` (info.bytes). Thread-safe.
  Status read(const TensorInfo &info, void *destination) const noexcept;

 private:
  template <typename Value>
  using NameMap = std::unordered_map<std::string, Value, TensorNameHash, std::equal_to<>>;

  TensorIndex() = default;
  void add_shard(std::unique_ptr<Reader> reader);
  void add_metadata(const std::string &file,
                    const std::vector<std::pair<std::string, std::string>> &metadata);
  void add_stamps(const std::string &file, const std::string &json);
  void add_manifest(uint32_t file, const std::string *json);
  void join_manifest(uint32_t file, PackedManifest manifest);
  void note_packed(uint32_t file, const PackedTensor &entry, size_t first_layout);
  void check_weight_map(const SnapshotFiles &files) const;

  std::string directory_;
  std::vector<ShardFile> files_;
  NameMap<TensorInfo> tensors_;
  NameMap<std::string> stamps_;
  std::unordered_map<std::string, std::string> metadata_;
  std::optional<PackedManifest> manifest_;
  uint64_t identity_hash_ = 0;
  uint64_t n_headers_parsed_ = 0;
};

}  // namespace colibri

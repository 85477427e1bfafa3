// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a packed snapshot: what each packed tensor holds, and the checksum of every
// tensor. It is the value of the key `colibri.packed` in the safetensors metadata of each shard and
// describes the tensors of that shard. docs/formats.md has the format for readers elsewhere.
//
//   {"version": 1, "source": {"identity": "16 hex digits", "model_type": ".."},
//    "options": {"experts": "int4", "dense": "int8", "embedding": "keep", "head": "keep",
//                "group": 64, "scales": "search"},
//    "counts": {"int4": {"tensors": N, "bytes": B}, ..},          of the whole snapshot
//    "files": {"config.json": "16 hex digits", ..},               of the whole snapshot
//    "layouts": [{"form": "expert", "parts": [{"format": "int4", "columns": N, "depth": N,
//                                              "group": 64, "scales": "bf16"}, ..]}, ..],
//    "tensors": {"name": [index into layouts or -1, "16 hex digits"], ..}}
//
// Parts of format "mxfp4" have "group": 32 and "scales": "e8m0". A part with one scale per column
// has "group": 0. Plain parts have neither "group" nor "scales".
// A layout of form "heads" has "heads": N beside it. Members that are not listed here are ignored.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/weight_layout.h"

namespace colibri {

constexpr const char *kPackedManifestKey = "colibri.packed";
constexpr uint32_t kPackedVersion = 1;
// Packed tensors begin at a multiple of this in the file and are padded to it with zeros.
constexpr uint64_t kPackedAlignment = 4096;

enum class PackedForm : uint8_t {
  kMatrix,  // one matrix
  kExpert,  // gate, up, down, one after another; then, if there are six parts, gate bias, up bias,
            // down bias: plain F32 matrices of depth 1, which are vectors in the order of columns
  kHeads,   // n_heads times: key half [kv_latent columns, nope depth], value half [value columns,
            // kv_latent depth]; what absorbed latent attention multiplies with
};
const char *packed_form_name(PackedForm form) noexcept;  // "matrix", "expert", "heads"

// Parts stand one after another, each total_bytes() long and so 64-byte aligned.
struct PackedLayout {
  PackedForm form = PackedForm::kMatrix;
  uint32_t n_heads = 1;  // kHeads only
  std::vector<WeightLayout> parts;

  bool operator==(const PackedLayout &) const = default;
  uint64_t part_offset(size_t part) const noexcept;  // from the tensor's start (of head 0)
  uint64_t head_bytes() const noexcept;              // all parts once
  uint64_t tensor_bytes() const noexcept;            // padded to kPackedAlignment
};

struct PackedTensor {
  std::string name;
  int32_t layout = -1;  // index into PackedManifest::layouts; -1: stored as safetensors says
  uint64_t checksum = 0;
};

// How a matrix of one kind was to be stored.
struct PackedOptions {
  std::string experts, dense, embedding, head;  // "int4", "int8", "bf16", "keep"
  uint32_t group = 0;
  std::string scales;  // "search", "absmax"
  bool operator==(const PackedOptions &) const = default;
};

struct FormatBytes {
  uint64_t n_tensors = 0;  // matrices: an expert counts three
  uint64_t bytes = 0;
  bool operator==(const FormatBytes &) const = default;
};

struct PackedManifest {
  uint64_t source_identity = 0;
  std::string model_type;
  PackedOptions options;
  std::map<std::string, FormatBytes> counts;            // by weight_format_name()
  std::vector<std::pair<std::string, uint64_t>> files;  // side files and their checksums
  std::vector<PackedLayout> layouts;
  std::vector<PackedTensor> tensors;  // in the order of the shard
};

// The JSON text. The length depends on names and sizes alone, not on checksums, so that room can be
// left for it before they are known.
std::string write_packed_manifest(const PackedManifest &manifest);

// Hostile input. Throws Error: kUnsupported for another version (says which), kFormat for anything
// that is not as above: sizes of layouts that overflow, unknown forms or formats, groups that
// weight_layout.h does not allow, a layout index without layout. `file` is for messages.
PackedManifest parse_packed_manifest(std::string_view json, const std::string &file);

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// One safetensors file: 8 bytes little-endian header length, JSON header, data. Hostile input:
// everything about the header is checked here against the real file size; nothing of the data is
// read.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/file.h"
#include "lib/snapshot/header_seal.h"

namespace colibri {

// Element types that can occur in a header. kOther: a well-formed entry of a type this library
// never needs (its bytes are checked against the file, its name is kept for reports).
enum class TensorType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E8M0,
  kU8,
  kI8,
  kI64,
  kF64,
  kOther
};

// Bytes of one element; 0 for kOther.
uint32_t tensor_type_bytes(TensorType type) noexcept;
const char *tensor_type_name(TensorType type) noexcept;

struct TensorRecord {
  std::string name;
  TensorType type;
  std::string type_name;        // as in the file
  std::vector<uint64_t> shape;  // at most 8 dimensions; empty is a scalar
  uint64_t offset;              // absolute in the file
  uint64_t bytes;
};

struct SafetensorsHeader {
  std::vector<TensorRecord> tensors;  // ascending offset
  std::vector<std::pair<std::string, std::string>> metadata;
  HeaderSeal seal = HeaderSeal::kNone;  // not judged here: only packed shards must have one
  uint64_t header_hash;  // 64-bit hash of the header bytes, part of a snapshot's identity
};

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Parses and checks a header. Throws Error(kFormat) naming file, tensor and numbers for: a file
// shorter than 8 bytes; header length 0, above kMaxHeaderBytes or above the file; other containers
// by magic (GGUF, ZIP or pickle, HDF5, HTML: named in the message); JSON faults; wrong member
// kinds; more than 8 dimensions; shape products that overflow; data span unequal to shape x type
// (byte types of quantised containers: the product of the shape must equal the span too); begin >
// end; a span outside the file; overlapping spans; holes between spans (zero-length tensors may sit
// anywhere); bytes after the last tensor; duplicate names. A file without tensors is valid.
SafetensorsHeader read_safetensors_header(const Reader &reader);

// True if the file begins like a safetensors file. Total: never throws, for any bytes.
bool looks_like_safetensors(const Reader &reader) noexcept;

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Reads a header in three steps: the length against the real file size, each entry alone, then all
// spans together. An allocation is never larger than the header itself times a small factor.

#include "lib/snapshot/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "lib/base/checked_math.h"
#include "lib/snapshot/foreign_format.h"
#include "lib/snapshot/hash.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr size_t kMaxDimensions = 8;

struct TypeRow {
  std::string_view name;
  TensorType type;
  uint32_t bytes;
};

// Names as files spell them. Types that are never needed are listed so that their sizes are checked
// too.
constexpr TypeRow kTypes[] = {
    {"F32", TensorType::kF32, 4},
    {"F16", TensorType::kF16, 2},
    {"BF16", TensorType::kBF16, 2},
    {"F8_E4M3", TensorType::kF8E4M3, 1},
    {"F8_E4M3FN", TensorType::kF8E4M3, 1},
    {"F8_E8M0", TensorType::kF8E8M0, 1},
    {"F8_E8M0FNU", TensorType::kF8E8M0, 1},
    {"U8", TensorType::kU8, 1},
    {"I8", TensorType::kI8, 1},
    {"I64", TensorType::kI64, 8},
    {"F64", TensorType::kF64, 8},
    {"BOOL", TensorType::kOther, 1},
    {"F8_E5M2", TensorType::kOther, 1},
    {"I16", TensorType::kOther, 2},
    {"U16", TensorType::kOther, 2},
    {"I32", TensorType::kOther, 4},
    {"U32", TensorType::kOther, 4},
    {"U64", TensorType::kOther, 8},
    {"C64", TensorType::kOther, 8},
};

TypeRow find_type(std::string_view name) noexcept {
  for (const TypeRow &row : kTypes) {
    if (row.name == name) return row;
  }
  return {name, TensorType::kOther, 0};
}

unsigned long long print(uint64_t number) noexcept {
  return number;
}

uint64_t decode_length(const std::array<uint8_t, kLengthBytes> &bytes) noexcept {
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  return length;
}

bool is_plausible_length(uint64_t length, uint64_t file_bytes) noexcept {
  return length >= 2 && length <= kMaxHeaderBytes && length <= file_bytes - kLengthBytes;
}

[[noreturn]] void refuse_length(const Reader &reader, const std::string &file, uint64_t length) {
  if (const char *format = recognise_foreign_format(reader)) {
    throw_error(StatusCode::kFormat, "%s is %s; only safetensors files are read", file.c_str(),
                format);
  }
  throw_error(StatusCode::kFormat,
              "%s: header length %llu in a file of %llu bytes; it must be 2..%llu and fit the file",
              file.c_str(), print(length), print(reader.size()), print(kMaxHeaderBytes));
}

// The header's bytes, after every check that does not need JSON.
std::vector<char> read_header_bytes(const Reader &reader, const std::string &file) {
  std::array<uint8_t, kLengthBytes> prefix{};
  if (reader.size() < kLengthBytes) {
    if (const char *format = recognise_foreign_format(reader)) {
      throw_error(StatusCode::kFormat, "%s is %s; only safetensors files are read", file.c_str(),
                  format);
    }
    throw_error(StatusCode::kFormat, "%s: %llu bytes; a safetensors file has at least %zu",
                file.c_str(), print(reader.size()), kLengthBytes);
  }
  throw_if_failed(reader.read_at(0, prefix.data(), prefix.size()));
  const uint64_t length = decode_length(prefix);
  if (!is_plausible_length(length, reader.size())) refuse_length(reader, file, length);
  std::vector<char> header(length);
  throw_if_failed(reader.read_at(kLengthBytes, header.data(), header.size()));
  if (header[0] == '{') return header;
  if (const char *format = recognise_foreign_format(reader)) {
    throw_error(StatusCode::kFormat, "%s is %s; only safetensors files are read", file.c_str(),
                format);
  }
  throw_error(StatusCode::kFormat, "%s: the header of %llu bytes does not begin with '{'",
              file.c_str(), print(length));
}

// One entry of the header, checked on its own.
class EntryReader {
 public:
  EntryReader(const std::string &file, std::string_view name, JsonValue entry, uint64_t data_begin,
              uint64_t data_bytes)
      : file_(file), name_(name), entry_(entry), data_begin_(data_begin), data_bytes_(data_bytes) {}

  TensorRecord read() const {
    if (!entry_.is_object()) fail("is not an object");
    TensorRecord record;
    record.name = std::string(name_);
    const auto type_name = entry_.get("dtype").as_string();
    if (!type_name) fail("has no dtype text");
    const TypeRow type = find_type(*type_name);
    record.type = type.type;
    record.type_name = std::string(*type_name);
    record.shape = read_shape();
    const auto [begin, end] = read_span();
    record.offset = data_begin_ + begin;  // both fit the file
    record.bytes = end - begin;
    check_size(record, type.bytes);
    return record;
  }

 private:
  [[noreturn]] void fail(const std::string &reason) const {
    throw_error(StatusCode::kFormat, "%s: tensor %s %s", file_.c_str(), printable(name_).c_str(),
                reason.c_str());
  }

  std::vector<uint64_t> read_shape() const {
    const JsonValue shape = entry_.get("shape");
    if (!shape.is_array()) fail("has no shape list");
    if (shape.size() > kMaxDimensions) {
      fail("has " + std::to_string(shape.size()) + " dimensions; at most " +
           std::to_string(kMaxDimensions) + " are read");
    }
    std::vector<uint64_t> extents;
    for (size_t i = 0; i < shape.size(); ++i) {
      const auto extent = shape.at(i).as_unsigned();
      if (!extent) fail("has a shape entry that is not a whole number >= 0");
      extents.push_back(*extent);
    }
    return extents;
  }

  std::pair<uint64_t, uint64_t> read_span() const {
    const JsonValue offsets = entry_.get("data_offsets");
    const auto begin = offsets.at(0).as_unsigned();
    const auto end = offsets.at(1).as_unsigned();
    if (offsets.size() != 2 || !offsets.is_array() || !begin || !end) {
      fail("has no data_offsets of two whole numbers >= 0");
    }
    if (*begin > *end || *end > data_bytes_) {
      fail("has data_offsets " + std::to_string(*begin) + ".." + std::to_string(*end) +
           "; the file holds " + std::to_string(data_bytes_) + " data bytes");
    }
    return {*begin, *end};
  }

  void check_size(const TensorRecord &record, uint32_t element_bytes) const {
    uint64_t n_elements = 1;
    try {
      for (const uint64_t extent : record.shape) {
        n_elements = checked_multiply(n_elements, extent, "shape");
      }
      if (element_bytes == 0) return;
      n_elements = checked_multiply(n_elements, element_bytes, "shape");
    } catch (const Error &) {
      fail("has a shape whose product overflows 64 bits");
    }
    if (n_elements != record.bytes) {
      fail("of type " + printable(record.type_name, 16) + " needs " + std::to_string(n_elements) +
           " bytes by its shape and spans " + std::to_string(record.bytes));
    }
  }

  const std::string &file_;
  std::string_view name_;
  JsonValue entry_;
  uint64_t data_begin_;
  uint64_t data_bytes_;
};

// Spans sorted by offset must tile the data exactly; empty ones may sit anywhere.
void check_tiling(const std::string &file, const std::vector<TensorRecord> &sorted,
                  uint64_t data_begin, uint64_t file_bytes) {
  uint64_t covered = data_begin;
  for (const TensorRecord &record : sorted) {
    if (record.bytes == 0 || record.offset == covered) {
      covered += record.bytes;
      continue;
    }
    const char *fault =
        record.offset < covered ? "overlaps its predecessor" : "leaves a hole before it";
    throw_error(StatusCode::kFormat,
                "%s: tensor %s %s: it begins at byte %llu of the file, expected %llu", file.c_str(),
                printable(record.name).c_str(), fault, print(record.offset), print(covered));
  }
  if (covered != file_bytes) {
    throw_error(StatusCode::kFormat,
                "%s: %llu bytes follow the last tensor, which ends at byte %llu", file.c_str(),
                print(file_bytes - covered), print(covered));
  }
}

void read_metadata(const std::string &file, JsonValue metadata, SafetensorsHeader *header) {
  if (!metadata.is_object()) {
    throw_error(StatusCode::kFormat, "%s: __metadata__ is not an object", file.c_str());
  }
  for (size_t i = 0; i < metadata.size(); ++i) {
    const auto text = metadata.at(i).as_string();
    if (text) header->metadata.emplace_back(metadata.key_at(i), *text);
  }
}

}  // namespace

uint32_t tensor_type_bytes(TensorType type) noexcept {
  for (const TypeRow &row : kTypes) {
    if (row.type == type) return type == TensorType::kOther ? 0 : row.bytes;
  }
  return 0;
}

const char *tensor_type_name(TensorType type) noexcept {
  if (type == TensorType::kOther) return "other";
  for (const TypeRow &row : kTypes) {
    if (row.type == type) return row.name.data();
  }
  return "other";
}

SafetensorsHeader read_safetensors_header(const Reader &reader) {
  const std::string file = file_name(reader.name());
  const std::vector<char> bytes = read_header_bytes(reader, file);
  const std::string_view text(bytes.data(), bytes.size());
  const JsonDocument document = JsonDocument::parse(text, file + " (header)");
  const JsonValue root = document.root();
  if (!root.is_object()) {
    throw_error(StatusCode::kFormat, "%s: the header is not a JSON object", file.c_str());
  }
  const uint64_t data_begin = kLengthBytes + bytes.size();
  SafetensorsHeader header;
  header.header_hash = hash_bytes(text, 0);
  header.seal = check_header_seal(text);
  header.tensors.reserve(root.size());
  for (size_t i = 0; i < root.size(); ++i) {
    const std::string_view name = root.key_at(i);
    if (name == "__metadata__") {
      read_metadata(file, root.at(i), &header);
    } else {
      const EntryReader entry(file, name, root.at(i), data_begin, reader.size() - data_begin);
      header.tensors.push_back(entry.read());
    }
  }
  const auto lies_before = [](const TensorRecord &a, const TensorRecord &b) {
    return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
  };
  // Writers list tensors in the order of their data, so that sorting is rarely needed.
  if (!std::is_sorted(header.tensors.begin(), header.tensors.end(), lies_before)) {
    std::stable_sort(header.tensors.begin(), header.tensors.end(), lies_before);
  }
  check_tiling(file, header.tensors, data_begin, reader.size());
  return header;
}

bool looks_like_safetensors(const Reader &reader) noexcept {
  std::array<uint8_t, kLengthBytes> prefix{};
  std::array<char, 32> head{};
  if (reader.size() < kLengthBytes || !reader.read_at(0, prefix.data(), prefix.size()).is_ok()) {
    return false;
  }
  const uint64_t length = decode_length(prefix);
  if (!is_plausible_length(length, reader.size())) return false;
  const size_t n_bytes = static_cast<size_t>(std::min<uint64_t>(length, head.size()));
  if (!reader.read_at(kLengthBytes, head.data(), n_bytes).is_ok() || head[0] != '{') return false;
  const std::string_view text(head.data(), n_bytes);
  const size_t second = text.find_first_not_of(" \t\r\n", 1);
  return second == std::string_view::npos || text[second] == '"' || text[second] == '}';
}

}  // namespace colibri

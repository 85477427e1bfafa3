// SPDX-License-Identifier: Apache-2.0
//
// Weights are small whole numbers times powers of two, so that every format holds them exactly.

#include "tests/snapshot/packed_shard.h"

#include <cstring>
#include <utility>

#include "lib/base/checksum.h"
#include "lib/base/number_formats.h"
#include "lib/snapshot/header_seal.h"

namespace colibri::test {
namespace {

// -8..7, different along both axes.
int code_at(uint32_t seed, uint64_t row, uint64_t column) {
  return static_cast<int>((seed * 5 + row * 7 + column * 3 + row * column) % 16) - 8;
}

float scale_at(uint32_t seed, uint64_t row, uint64_t group) {
  constexpr float kScales[] = {0.25f, 0.5f, 1.0f, 2.0f, 1.5f};
  return kScales[(seed + row + 2 * group) % 5];
}

uint64_t divide_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

// Row-major bytes of the codes.
std::vector<uint8_t> store_codes(const WeightLayout &layout, uint32_t seed) {
  std::vector<uint8_t> bytes;
  for (uint32_t row = 0; row < layout.columns; ++row) {
    for (uint32_t column = 0; column < layout.depth; ++column) {
      const int code = code_at(seed, row, column);
      const float value = static_cast<float>(code);
      uint8_t raw[4];
      size_t n = 1;
      switch (layout.format) {
        case WeightFormat::kF32:
          std::memcpy(raw, &value, n = 4);
          break;
        case WeightFormat::kBF16:
        case WeightFormat::kF16: {
          const uint16_t half =
              layout.format == WeightFormat::kBF16 ? float_to_bf16(value) : float_to_f16(value);
          std::memcpy(raw, &half, n = 2);
          break;
        }
        case WeightFormat::kFp8: {
          int byte = 0;
          while (fp8_e4m3_to_float(static_cast<uint8_t>(byte)) != value) ++byte;
          raw[0] = static_cast<uint8_t>(byte);
          break;
        }
        case WeightFormat::kInt8:
          raw[0] = static_cast<uint8_t>(code);
          break;
        case WeightFormat::kMxFp4:  // its codes are no whole numbers
          n = 0;
          break;
        case WeightFormat::kInt4:
          raw[0] = static_cast<uint8_t>(code + 8);
          if (column % 2 == 0) break;
          bytes.back() = static_cast<uint8_t>(bytes.back() | (raw[0] << 4));
          n = 0;
          break;
      }
      bytes.insert(bytes.end(), raw, raw + n);
    }
  }
  return bytes;
}

}  // namespace

MadeMatrix make_packed_matrix(WeightFormat format, uint32_t columns, uint32_t depth, uint32_t group,
                              ScaleType scales, uint32_t seed) {
  MadeMatrix made;
  made.layout.format = format;
  made.layout.columns = columns;
  made.layout.depth = depth;
  if (made.layout.has_scales()) {
    made.layout.has_row_scale = group == 0;
    made.layout.group = group == 0 ? kRowScaleActivationGroup : group;
    made.layout.scale_type = scales;
  }
  const bool is_block = format == WeightFormat::kFp8;
  const uint64_t n_groups = made.layout.scale_groups();
  std::vector<float> stored_scales;
  for (uint64_t row = 0; row < (is_block ? divide_up(columns, group) : columns); ++row) {
    for (uint64_t g = 0; g < n_groups; ++g) stored_scales.push_back(scale_at(seed, row, g));
  }
  const std::vector<uint8_t> codes = store_codes(made.layout, seed);
  made.bytes.resize(made.layout.total_bytes());
  pack_matrix(made.layout, {codes.data(), stored_scales.data()},
              reinterpret_cast<uint8_t *>(made.bytes.data()));
  for (uint64_t row = 0; row < columns; ++row) {
    for (uint64_t column = 0; column < depth; ++column) {
      const uint64_t g = made.layout.has_row_scale || n_groups == 0 ? 0 : column / group;
      const float scale = n_groups == 0 ? 1.0f : scale_at(seed, is_block ? row / group : row, g);
      made.weights.push_back(static_cast<float>(code_at(seed, row, column)) * scale);
    }
  }
  return made;
}

PackedLayout layout_of(PackedForm form, const std::vector<MadeMatrix> &parts, uint32_t n_heads) {
  PackedLayout layout;
  layout.form = form;
  layout.n_heads = n_heads;
  for (const MadeMatrix &part : parts) layout.parts.push_back(part.layout);
  return layout;
}

PackedShard::PackedShard() {
  manifest.source_identity = 0x0123456789abcdef;
  manifest.model_type = "glm_moe_dsa";
  manifest.options = {"int4", "int8", "keep", "keep", 64, "search"};
  manifest.counts["int4"] = {3, 1000};
  manifest.files = {{"config.json", 77}};
}

void PackedShard::add(const std::string &name, const std::string &type,
                      const std::vector<uint64_t> &shape, const std::string &data, int32_t layout) {
  std::string shape_text;
  for (const uint64_t extent : shape) {
    if (!shape_text.empty()) shape_text += ",";
    shape_text += std::to_string(extent);
  }
  if (!entries_.empty()) entries_ += ",";
  entries_ += "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":[" + shape_text +
              "],\"data_offsets\":[" + std::to_string(data_.size()) + "," +
              std::to_string(data_.size() + data.size()) + "]}";
  data_ += data;
  const auto *bytes = reinterpret_cast<const uint8_t *>(data.data());
  manifest.tensors.push_back({name, layout, checksum({bytes, data.size()})});
}

void PackedShard::add_plain(const std::string &name, const std::string &type,
                            const std::vector<uint64_t> &shape, const std::string &data) {
  add(name, type, shape, data, -1);
}

void PackedShard::add_packed(const std::string &name, const PackedLayout &layout,
                             std::string data) {
  data.resize(layout.tensor_bytes());
  manifest.layouts.push_back(layout);
  add(name, "U8", {data.size()}, data, static_cast<int32_t>(manifest.layouts.size()) - 1);
}

void PackedShard::add_matrix(const std::string &name, const MadeMatrix &matrix) {
  add_packed(name, layout_of(PackedForm::kMatrix, {matrix}), matrix.bytes);
}

void PackedShard::add_expert(const std::string &name, const std::vector<MadeMatrix> &parts) {
  std::string data;
  for (const MadeMatrix &part : parts) data += part.bytes;
  add_packed(name, layout_of(PackedForm::kExpert, parts), data);
}

void PackedShard::add_heads(const std::string &name, const std::vector<MadeMatrix> &parts) {
  std::string data;
  for (const MadeMatrix &part : parts) data += part.bytes;
  const auto n_heads = static_cast<uint32_t>(parts.size() / 2);
  add_packed(name, layout_of(PackedForm::kHeads, {parts[0], parts[1]}, n_heads), data);
}

std::string PackedShard::file() const {
  return file_with(write_packed_manifest(manifest));
}

std::string PackedShard::file_with(const std::string &text) const {
  std::string header =
      "{\"__metadata__\":{\"colibri.header\":\"0000000000000000\",\"format\":\"pt\"";
  if (!text.empty()) {
    header += std::string(",\"") + kPackedManifestKey + "\":\"";
    for (const char letter : text) {
      if (letter == '"' || letter == '\\') header += '\\';
      header += letter;
    }
    header += "\"";
  }
  header += entries_.empty() ? "}" : "}," + entries_;
  header += "}";
  header.resize(divide_up(8 + header.size(), kPackedAlignment) * kPackedAlignment - 8, ' ');
  seal_header(&header);
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file + header + data_;
}

std::string seal_again(std::string file) {
  const std::string opening = std::string("\"") + kHeaderSealKey + "\":\"";
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) length |= uint64_t{static_cast<uint8_t>(file[i])} << (8 * i);
  std::string header = file.substr(8, length);
  header.replace(header.find(opening) + opening.size(), 16, kOpenSeal);
  seal_header(&header);
  return file.replace(8, length, header);
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Packed tensors are whole multiples of 4096 bytes and stand in front, so they are aligned without
// holes, which safetensors forbids.

#include "lib/convert/shard_layout.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <unordered_set>

#include "lib/base/checked_math.h"
#include "lib/snapshot/json.h"
#include "lib/snapshot/printable.h"
#include "lib/snapshot/snapshot_files.h"
#include "lib/snapshot/tensor_index.h"

namespace colibri {
namespace {

constexpr size_t kLengthBytes = 8;

void check_plan(const PackedWriterPlan &plan) {
  std::unordered_set<std::string_view> names;
  bool had_plain = false;
  for (const OutputTensor &tensor : plan.tensors) {
    const char *fault = nullptr;
    if (!names.insert(tensor.name).second) fault = "stands twice in the plan";
    if (tensor.layout && had_plain) fault = "is packed and stands behind a plain one";
    if (tensor.layout && tensor.bytes != tensor.layout->tensor_bytes()) {
      fault = "has not the bytes of its layout";
    }
    if (fault != nullptr) {
      throw_error(StatusCode::kInternal, "tensor %s of a packed snapshot %s",
                  printable(tensor.name).c_str(), fault);
    }
    had_plain = had_plain || !tensor.layout;
  }
}

// Numbers of tensors in consecutive shards of at most `bound` bytes.
std::vector<size_t> count_per_shard(const std::vector<OutputTensor> &tensors, uint64_t bound) {
  std::vector<size_t> counts = {0};
  uint64_t bytes = 0;
  for (const OutputTensor &tensor : tensors) {
    if (counts.back() != 0 && saturating_add(bytes, tensor.bytes) > bound) {
      counts.push_back(0);
      bytes = 0;
    }
    ++counts.back();
    bytes = checked_add(bytes, tensor.bytes, "shard");
  }
  return counts;
}

std::string shard_name(size_t shard, size_t n_shards) {
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, n_shards);
  return name;
}

std::span<const OutputTensor> tensors_of(const PackedWriterPlan &plan, const ShardPlan &shard) {
  return std::span(plan.tensors).subspan(shard.first_tensor, shard.n_tensors);
}

// Index of a layout in the list, where it is put if it is new. Few layouts serve many tensors.
int32_t layout_index(const PackedLayout &layout, std::vector<PackedLayout> *layouts) {
  const auto known = std::find(layouts->begin(), layouts->end(), layout);
  const auto index = known - layouts->begin();
  if (known == layouts->end()) layouts->push_back(layout);
  return static_cast<int32_t>(index);
}

PackedManifest make_manifest(const PackedWriterPlan &plan, const ShardPlan &shard,
                             std::span<const uint64_t> tensor_checksums,
                             std::span<const uint64_t> file_checksums) {
  PackedManifest manifest;
  manifest.source_identity = plan.source_identity;
  manifest.model_type = plan.model_type;
  manifest.options = plan.options;
  manifest.counts = count_formats(plan.tensors);
  for (size_t i = 0; i < plan.files.size(); ++i) {
    manifest.files.emplace_back(plan.files[i].first, file_checksums[i]);
  }
  size_t index = shard.first_tensor;
  for (const OutputTensor &tensor : tensors_of(plan, shard)) {
    const int32_t layout = tensor.layout ? layout_index(*tensor.layout, &manifest.layouts) : -1;
    manifest.tensors.push_back({tensor.name, layout, tensor_checksums[index++]});
  }
  return manifest;
}

// Stamps of the shard's tensors as JSON, empty if there are none.
std::string stamps_json(std::span<const OutputTensor> tensors) {
  JsonWriter json;
  bool has_any = false;
  json.begin_object();
  for (const OutputTensor &tensor : tensors) {
    if (tensor.stamp.empty()) continue;
    json.key(tensor.name).value(tensor.stamp);
    has_any = true;
  }
  return has_any ? json.end_object().text() : std::string();
}

std::string header_json(const PackedWriterPlan &plan, const ShardPlan &shard,
                        const PackedManifest &manifest) {
  JsonWriter json;
  json.begin_object().key("__metadata__").begin_object();
  json.key(kHeaderSealKey).value(kOpenSeal);
  json.key(kPackedManifestKey).value(write_packed_manifest(manifest));
  const std::string stamps = stamps_json(tensors_of(plan, shard));
  if (!stamps.empty()) json.key(kFormatStampKey).value(stamps);
  json.end_object();
  uint64_t offset = 0;
  for (const OutputTensor &tensor : tensors_of(plan, shard)) {
    json.key(tensor.name).begin_object().key("dtype").value(tensor.type_name);
    json.key("shape").begin_array();
    for (const uint64_t extent : tensor.shape) json.value(extent);
    json.end_array().key("data_offsets").begin_array().value(offset);
    offset += tensor.bytes;
    json.value(offset).end_array().end_object();
  }
  json.end_object();
  return json.text();
}

void add_count(FormatBytes *count, uint64_t n_tensors, uint64_t bytes) {
  count->n_tensors += n_tensors;
  count->bytes += bytes;
}

const char *plain_format(const std::string &type_name) {
  if (type_name == "F32") return "f32";
  if (type_name == "BF16") return "bf16";
  return type_name == "F16" ? "f16" : nullptr;
}

}  // namespace

std::vector<ShardPlan> cut_into_shards(const PackedWriterPlan &plan) {
  check_plan(plan);
  uint64_t bound = plan.max_shard_bytes == 0 ? UINT64_MAX : plan.max_shard_bytes;
  std::vector<size_t> counts = count_per_shard(plan.tensors, bound);
  while (counts.size() > kMaxShards) {
    bound = saturating_multiply(bound, 2);
    counts = count_per_shard(plan.tensors, bound);
  }
  const std::vector<uint64_t> no_checksums(plan.tensors.size() + plan.files.size());
  const std::span<const uint64_t> zeros(no_checksums);
  std::vector<ShardPlan> shards;
  size_t first = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    ShardPlan shard{shard_name(i, counts.size()), first, counts[i], 0, 0};
    first += counts[i];
    shard.data_begin = shard_header(plan, shard, zeros, zeros).size();
    if (shard.data_begin - kLengthBytes > kMaxHeaderBytes) {
      throw_error(StatusCode::kUnsupported,
                  "the header of %s would have %llu bytes, safetensors allows %llu; allow fewer "
                  "bytes per file, so that each holds fewer tensors",
                  shard.name.c_str(), static_cast<unsigned long long>(shard.data_begin),
                  static_cast<unsigned long long>(kMaxHeaderBytes));
    }
    shard.file_bytes = shard.data_begin;
    for (const OutputTensor &tensor : tensors_of(plan, shard)) {
      shard.file_bytes = checked_add(shard.file_bytes, tensor.bytes, "shard");
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

uint64_t sum_file_bytes(const PackedWriterPlan &plan, const std::vector<ShardPlan> &shards) {
  uint64_t bytes = 0;
  for (const ShardPlan &shard : shards) bytes = checked_add(bytes, shard.file_bytes, "snapshot");
  for (const auto &file : plan.files) bytes = checked_add(bytes, file.second.size(), "snapshot");
  return bytes;
}

std::map<std::string, FormatBytes> count_formats(const std::vector<OutputTensor> &tensors) {
  std::map<std::string, FormatBytes> counts;
  for (const OutputTensor &tensor : tensors) {
    if (!tensor.layout) {
      const char *format = plain_format(tensor.type_name);
      if (format != nullptr) add_count(&counts[format], 1, tensor.bytes);
      continue;
    }
    for (const WeightLayout &part : tensor.layout->parts) {
      const uint64_t n_heads = tensor.layout->n_heads;
      add_count(&counts[weight_format_name(part.format)], n_heads, n_heads * part.total_bytes());
    }
  }
  return counts;
}

std::string shard_header(const PackedWriterPlan &plan, const ShardPlan &shard,
                         std::span<const uint64_t> tensor_checksums,
                         std::span<const uint64_t> file_checksums) {
  std::string json =
      header_json(plan, shard, make_manifest(plan, shard, tensor_checksums, file_checksums));
  const size_t padded =
      divide_up(kLengthBytes + json.size(), kPackedAlignment) * kPackedAlignment - kLengthBytes;
  json.resize(padded, ' ');
  seal_header(&json);
  std::string header(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) header[i] = static_cast<char>(padded >> (8 * i));
  return header.append(json);
}

}  // namespace colibri

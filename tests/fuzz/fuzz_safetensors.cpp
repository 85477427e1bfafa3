// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a safetensors file: a header whose spans all lie inside the file, or Error(kFormat);
// with a packed manifest of another version, Error(kUnsupported). A sound file is also joined to an
// index and its tensors are offered as matrices, experts and heads. Sniffing must answer in every
// case.

#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/base/file.h"
#include "lib/snapshot/packed_source.h"
#include "lib/snapshot/safetensors.h"
#include "lib/snapshot/tensor_index.h"
#include "lib/snapshot/weight_source.h"
#include "tests/fuzz/fuzz_driver.h"
#include "tests/snapshot/packed_shard.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_spans(const SafetensorsHeader &header, uint64_t file_bytes) {
  for (const TensorRecord &record : header.tensors) {
    require(record.offset <= file_bytes && record.bytes <= file_bytes - record.offset);
    require(record.shape.size() <= 8);
  }
}

void offer_as_matrix(const TensorIndex &index, std::string_view name, uint64_t rows,
                     uint64_t columns) {
  try {
    const WeightSource source = find_matrix(index, std::string(name), rows, columns);
    if (rows * columns > 100000) return;
    std::vector<float> values(rows * columns);
    read_dequantised(index, source, values.data());
  } catch (const Error &error) {
    require(error.status().code() != StatusCode::kIo &&
            error.status().code() != StatusCode::kInternal);
  }
}

void require_inside(const TensorIndex &index, const TensorSpan &span) {
  const uint64_t file_bytes = index.files()[span.file].reader->size();
  require(span.offset <= file_bytes && span.bytes <= file_bytes - span.offset);
}

// With the shapes that the layout itself has, so that nothing but its form can be refused.
void offer_as_packed(const TensorIndex &index, const std::string &name) {
  const std::vector<WeightLayout> &parts = index.packed_layout(name)->parts;
  try {
    require_inside(index, find_packed_matrix(index, name, parts[0].columns, parts[0].depth).values);
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat);
  }
  try {
    const ExpertSource expert = find_packed_expert(index, name, parts[0].columns, parts[0].depth);
    for (const WeightSource *matrix : {&expert.gate, &expert.up, &expert.down}) {
      require_inside(index, matrix->values);
    }
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat);
  }
  ModelConfig config;
  config.n_heads = index.packed_layout(name)->n_heads;
  config.kv_latent = parts[0].columns;
  config.nope_width = parts[0].depth;
  config.value_width = parts.back().columns;
  try {
    const KvHeadsSource heads = find_packed_heads(index, name, config);
    require_inside(index, heads.values);
    require_inside(index, head_part(heads, heads.n_heads - 1, 1).values);
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat ||
            error.status().code() == StatusCode::kUnsupported);
  }
}

std::unique_ptr<Reader> reader_of(const uint8_t *data, size_t size) {
  return make_memory_reader("fuzz.safetensors", std::vector<uint8_t>(data, data + size));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  looks_like_safetensors(*reader_of(data, size));
  try {
    check_spans(read_safetensors_header(*reader_of(data, size)), size);
    std::vector<std::unique_ptr<Reader>> readers;
    readers.push_back(reader_of(data, size));
    const TensorIndex index = TensorIndex::from_readers(std::move(readers));
    for (const std::string_view name : index.names()) {
      const TensorInfo *info = index.find(name);
      if (info->shape.size() == 2) offer_as_matrix(index, name, info->shape[0], info->shape[1]);
      offer_as_matrix(index, name, 4, 40);
      offer_as_matrix(index, name, UINT64_MAX, 3);
      if (index.packed_layout(name) != nullptr) offer_as_packed(index, std::string(name));
    }
  } catch (const Error &error) {
    require(error.status().code() == StatusCode::kFormat ||
            error.status().code() == StatusCode::kUnsupported);
  }
  return 0;
}

namespace colibri::test {
namespace {

std::string file_of(std::string_view header, size_t data_bytes) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>((header.size() >> (8 * i)) & 0xff);
  return file.append(header).append(std::string(data_bytes, '\x38'));
}

std::string packed_file() {
  const auto make = [](uint32_t columns, uint32_t depth) {
    return make_packed_matrix(WeightFormat::kInt4, columns, depth, 16, ScaleType::kBF16);
  };
  PackedShard shard;
  shard.add_matrix("m", make_packed_matrix(WeightFormat::kInt8, 4, 40));
  shard.add_expert("e", {make(4, 16), make(4, 16), make(16, 4)});
  shard.add_heads("h", {make_packed_matrix(WeightFormat::kBF16, 8, 4), make(5, 8)});
  shard.add_plain("b", "BF16", {3}, "123456");
  return shard.file();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  return {
      file_of("{}", 0),
      file_of(R"({"__metadata__":{"format":"pt","colibri.fmt":"{\"w\":\"int4-grouped\"}"},)"
              R"("w":{"dtype":"U8","shape":[4,20],"data_offsets":[0,80]},)"
              R"("w.qs":{"dtype":"F32","shape":[4,3],"data_offsets":[80,128]}})",
              128),
      file_of(R"({"f":{"dtype":"F8_E4M3","shape":[4,40],"data_offsets":[0,160]},)"
              R"("f_scale_inv":{"dtype":"F8_E8M0","shape":[1,1],"data_offsets":[160,161]},)"
              R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[161,167]}})",
              167),
      file_of(R"({"w":{"dtype":"I8","shape":[160],"data_offsets":[0,160]},)"
              R"("w.qs":{"dtype":"F32","shape":[4],"data_offsets":[160,176]}})",
              176),
      file_of(R"({"__metadata__":{"n":1}, "s":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
              R"("e":{"dtype":"F16","shape":[0,5],"data_offsets":[4,4]}})",
              4),
      file_of(
          R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}})",
          12),
      file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]}})", 16),
      file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551615,0]}})", 1),
      file_of("notjson!", 0),
      "GGUF" + std::string(60, '\0'),
      "<!DOCTYPE html>",
      std::string(64, '\xFF'),
      "",
      packed_file(),
  };
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/convert/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/support/catch.h"

namespace colibri::test {

WeightLayout int4_layout(uint32_t columns, uint32_t depth, uint32_t group) {
  WeightLayout layout;
  layout.format = WeightFormat::kInt4;
  layout.columns = columns;
  layout.depth = depth;
  layout.group = group;
  layout.scale_type = ScaleType::kBF16;
  return layout;
}

WeightLayout int8_layout(uint32_t columns, uint32_t depth, uint32_t group) {
  WeightLayout layout = int4_layout(columns, depth, group);
  layout.format = WeightFormat::kInt8;
  return layout;
}

OutputTensor packed_tensor(const std::string &name, PackedForm form,
                           const std::vector<WeightLayout> &parts, uint32_t n_heads) {
  const PackedLayout layout{form, n_heads, parts};
  return {name, "U8", {layout.tensor_bytes()}, layout.tensor_bytes(), layout};
}

OutputTensor plain_tensor(const std::string &name, const std::string &type_name,
                          const std::vector<uint64_t> &shape) {
  uint64_t bytes = type_name == "F32" ? 4 : 2;
  for (const uint64_t extent : shape) bytes *= extent;
  return {name, type_name, shape, bytes, std::nullopt};
}

PackedWriterPlan make_plan(const std::string &destination) {
  PackedWriterPlan plan;
  plan.destination = destination;
  plan.source_identity = 0x1234'5678'9abc'def0;
  plan.model_type = "glm_moe_dsa";
  plan.options = {"int4", "int8", "keep", "keep", 32, "search"};
  for (int i = 0; i < 8; ++i) {
    plan.tensors.push_back(packed_tensor(
        "layers.1.experts." + std::to_string(i), PackedForm::kExpert,
        {int4_layout(96, 160, 32), int4_layout(96, 160, 32), int4_layout(160, 96, 32)}));
  }
  plan.tensors.push_back(
      packed_tensor("layers.0.o_proj", PackedForm::kMatrix, {int8_layout(100, 77, 64)}));
  plan.tensors.push_back(packed_tensor("layers.0.kv_b_proj", PackedForm::kHeads,
                                       {int8_layout(32, 24, 16), int8_layout(20, 32, 16)}, 3));
  plan.tensors.push_back(plain_tensor("embed", "BF16", {61, 160}));
  plan.tensors.push_back(plain_tensor("empty", "F32", {0, 4}));
  plan.tensors.push_back(plain_tensor("norm", "F32", {160}));
  plan.files = {{"config.json", {'{', '}', '\n'}},
                {"tokenizer.json", std::vector<uint8_t>(70'000, 7)}};
  plan.max_shard_bytes = 100'000;
  return plan;
}

std::vector<uint8_t> content_of(const OutputTensor &tensor) {
  std::vector<uint8_t> bytes(tensor.bytes);
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(tensor.name)));
  for (uint8_t &byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

void write_tensor(PackedWriter *writer, size_t tensor, size_t piece) {
  const std::vector<uint8_t> bytes = content_of(writer->plan().tensors[tensor]);
  for (size_t at = 0; at < bytes.size(); at += piece) {
    writer->append(tensor, std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
  }
  writer->finish_tensor(tensor);
}

void write_rest(PackedWriter *writer) {
  for (size_t i = 0; i < writer->plan().tensors.size(); ++i) {
    if (!writer->is_done(i)) write_tensor(writer, i);
  }
}

std::map<std::string, std::string> read_folder(const std::string &path) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(path)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  return files;
}

void flip_bit(const std::string &path, uint64_t offset) {
  std::fstream stream(path, std::ios::binary | std::ios::in | std::ios::out);
  stream.seekg(static_cast<std::streamoff>(offset));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(offset));
  stream.put(static_cast<char>(byte ^ 1));
  REQUIRE(stream.flush().good());
}

int run_in_child(const std::function<void()> &body) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/convert/random_model.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

uint64_t count_elements(const std::vector<uint64_t> &shape) {
  uint64_t n = 1;
  for (const uint64_t extent : shape) n *= extent;
  return n;
}

}  // namespace

TinyModel make_random_model(uint32_t seed) {
  TinyModel model;
  for (TestTensor &tensor : model.tensors) {
    const std::string name = tensor.name + std::to_string(seed);
    tensor.data = make_stored_matrix(tensor.type, name, 1, count_elements(tensor.shape))[0].data;
  }
  return model;
}

void store_as(const std::string &form, TinyModel *model, const std::string &name) {
  const TestTensor old = model->find(name);
  const std::vector<TestTensor> stored = make_stored_matrix(form, name, old.shape[0], old.shape[1]);
  model->find(name) = stored[0];
  model->tensors.insert(model->tensors.end(), stored.begin() + 1, stored.end());
}

ConversionOptions keep_all() {
  ConversionOptions options;
  options.experts = options.dense = options.embedding = options.head = TargetFormat::kKeep;
  return options;
}

std::vector<uint8_t> read_span(const TensorIndex &index, const TensorSpan &span) {
  std::vector<uint8_t> bytes(span.bytes);
  const Status status =
      index.files()[span.file].reader->read_at(span.offset, bytes.data(), bytes.size());
  REQUIRE(status.is_ok());
  return bytes;
}

std::vector<uint8_t> read_tensor(const TensorIndex &index, const std::string &name) {
  const TensorInfo *info = index.find(name);
  INFO(name);
  REQUIRE(info != nullptr);
  return read_span(index, {info->file, info->offset, info->bytes});
}

std::vector<float> read_weights(const Snapshot &snapshot, const WeightSource &source) {
  std::vector<float> weights(source.rows * source.columns);
  read_dequantised(snapshot.index(), source, weights.data());
  return weights;
}

std::map<std::string, std::string> read_files(const std::string &path) {
  std::map<std::string, std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(path)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    files[entry.path().filename().string()] = {std::istreambuf_iterator<char>(stream), {}};
  }
  return files;
}

}  // namespace colibri::test

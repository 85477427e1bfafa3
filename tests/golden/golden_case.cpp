// SPDX-License-Identifier: Apache-2.0
//
// Reads golden.safetensors and golden.json of a case.

#include "tests/golden/golden_case.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "lib/snapshot/json.h"

namespace colibri::test {
namespace {

TensorIndex open_arrays(const std::string &path) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(open_file(path + "/golden/golden.safetensors"));
  return TensorIndex::from_readers(std::move(readers));
}

template <typename T>
std::vector<T> read_array(const TensorIndex &arrays, const std::string &name) {
  const TensorInfo *info = arrays.find(name);
  if (info == nullptr) throw std::runtime_error("no golden array " + name);
  std::vector<T> values(info->bytes / sizeof(T));
  throw_if_failed(arrays.read(*info, values.data()));
  return values;
}

std::vector<std::string> list_cases() {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(COLIBRI_TEST_DATA)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

GoldenCase::GoldenCase(const std::string &name)
    : name_(name), path_(std::string(COLIBRI_TEST_DATA) + "/" + name), arrays_(open_arrays(path_)) {
  const std::string file = path_ + "/golden/golden.json";
  const std::vector<uint8_t> bytes = read_whole_file(file, 1 << 24);
  const JsonDocument document =
      JsonDocument::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, file);
  const auto floor =
      document.root().get("noise_floor").get("logits_max_abs_float32_vs_float64").as_number();
  logits_tolerance_ = std::max(2e-4f, 20.0f * static_cast<float>(floor.value()));
}

bool GoldenCase::has(const std::string &array) const {
  return arrays_.find(array) != nullptr;
}

std::vector<int32_t> GoldenCase::ids(const std::string &array) const {
  const std::vector<int64_t> wide = read_array<int64_t>(arrays_, array);
  return {wide.begin(), wide.end()};
}

std::vector<float> GoldenCase::floats(const std::string &array) const {
  return read_array<float>(arrays_, array);
}

const std::vector<std::string> &golden_case_names() {
  static const std::vector<std::string> names = list_cases();
  return names;
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "tests/snapshot/golden_model.h"

#include "lib/snapshot/json.h"
#include "lib/snapshot/safetensors.h"

namespace colibri::test {

TinyModel read_golden_model(const std::string &folder) {
  const std::string path = std::string(COLIBRI_TEST_DATA) + "/" + folder + "/";
  const std::vector<uint8_t> text = read_whole_file(path + "config.json", kMaxJsonBytes);
  const JsonDocument document =
      JsonDocument::parse({reinterpret_cast<const char *>(text.data()), text.size()}, folder);
  TinyModel model;
  model.config.clear();
  for (size_t i = 0; i < document.root().size(); ++i) {
    JsonWriter writer;
    writer.value(document.root().at(i));
    model.config[std::string(document.root().key_at(i))] = writer.text();
  }
  const std::vector<uint8_t> bytes = read_whole_file(path + "model.safetensors", 16u << 20);
  const std::string data(bytes.begin(), bytes.end());
  model.tensors.clear();
  for (const TensorRecord &record :
       read_safetensors_header(*memory_reader("model.safetensors", data)).tensors) {
    model.tensors.push_back(
        {record.name, record.type_name, record.shape, data.substr(record.offset, record.bytes)});
  }
  return model;
}

}  // namespace colibri::test

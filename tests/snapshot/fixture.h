// SPDX-License-Identifier: Apache-2.0
//
// What the tests of this folder share: temporary folders, safetensors files made by hand, and a
// tiny model of the glm_moe_dsa family whose tensors and config a test may bend before it is
// written.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file.h"
#include "tests/support/expect_failure.h"

namespace colibri::test {

// A fresh folder that disappears at the end of the test.
class TempFolder {
 public:
  explicit TempFolder(const std::string &suffix = "");
  ~TempFolder();
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;

  const std::string &path() const noexcept { return path_; }
  std::string file(const std::string &name) const { return path_ + "/" + name; }
  void write(const std::string &name, std::string_view bytes) const;
  void remove(const std::string &name) const;

 private:
  std::string path_;
};

struct TestTensor {
  std::string name;
  std::string type;
  std::vector<uint64_t> shape;
  std::string data;
};

// A tensor of zeros of the right size.
TestTensor zeros(std::string name, std::string type, std::vector<uint64_t> shape);

// Length prefix, `header` and `data` as they are.
std::string raw_file(std::string_view header, std::string_view data = "");
// A correct file; `metadata` is JSON text of the __metadata__ object or empty.
std::string safetensors_file(const std::vector<TestTensor> &tensors,
                             const std::string &metadata = "");
std::unique_ptr<Reader> memory_reader(const std::string &name, std::string_view bytes);
// A row of floats as bytes.
std::string float_bytes(const std::vector<float> &values);

// Three layers: 0 dense with a full indexer, 1 MoE full, 2 MoE shared; 4 experts, everything BF16.
struct TinyModel {
  TinyModel();

  std::map<std::string, std::string> config;  // key to JSON text
  std::vector<TestTensor> tensors;

  std::string config_text() const;
  TestTensor &find(const std::string &name);
  void erase(const std::string &name);
  void erase_layer(int layer);
  // Puts the experts of a layer into one tensor for gate and up, in halves, and one for down.
  void fuse_experts(int layer);
  // Writes config.json and model.safetensors.
  void write(const TempFolder &folder) const;
  // Writes config.json and model-0000i-of-0000n.safetensors, with an index file if asked.
  void write_shards(const TempFolder &folder, int n_shards, bool with_index) const;
};

}  // namespace colibri::test

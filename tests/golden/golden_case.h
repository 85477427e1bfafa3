// SPDX-License-Identifier: Apache-2.0
//
// One folder of tests/golden/data: a tiny model and what the reference implementation computes from
// it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/snapshot/tensor_index.h"

namespace colibri::test {

class GoldenCase {
 public:
  explicit GoldenCase(const std::string &name);

  const std::string &name() const { return name_; }
  const std::string &path() const { return path_; }
  static constexpr int kPrompts = 4;  // of 1, 7, 33 and 97 tokens

  bool has(const std::string &array) const;
  std::vector<int32_t> ids(const std::string &array) const;
  std::vector<float> floats(const std::string &array) const;
  std::vector<int32_t> prompt(int i) const { return ids(key(i, "ids")); }
  static std::string key(int i, const std::string &what) {
    return "prompt." + std::to_string(i) + "." + what;
  }

  // Largest allowed difference of logits in float mode: 2e-4, or 20 times the stated float64 noise
  // floor if larger.
  float logits_tolerance() const { return logits_tolerance_; }

 private:
  std::string name_, path_;
  TensorIndex arrays_;
  float logits_tolerance_;
};

// The folders of tests/golden/data, by name.
const std::vector<std::string> &golden_case_names();

}  // namespace colibri::test

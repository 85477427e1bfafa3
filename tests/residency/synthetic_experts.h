// SPDX-License-Identifier: Apache-2.0
//
// Generated experts in memory whose every weight says which layer, expert and matrix it belongs to,
// behind a reader that counts, delays and fails as a test asks.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/backend/op_args.h"
#include "lib/residency/placement.h"
#include "lib/snapshot/snapshot.h"

namespace colibri::test {

// What a test tells a reader to do, and what the reader tells the test. Thread-safe.
class ReaderControl {
 public:
  void fail_at(uint64_t offset);
  void stop_failing();
  void hold();  // reads wait until resume()
  void resume();
  void wait_for_held(uint32_t n_reads);       // until so many reads wait at once
  void set_hook(std::function<void()> hook);  // called by every read, without a lock
  uint64_t n_reads_at(uint64_t offset) const;
  uint64_t n_reads() const;
  void reset_counts();

  // Called by the reader: counts, waits, and says whether to fail.
  bool enter_read(uint64_t offset);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::set<uint64_t> failing_;
  std::map<uint64_t, uint64_t> counts_;
  std::function<void()> hook_;
  bool is_held_ = false;
  uint32_t n_held_ = 0;
};

struct TestTensor {
  std::string name;
  std::string type;  // as in a safetensors header
  std::vector<uint64_t> shape;
  std::vector<uint8_t> bytes;
};

// An index over one generated file of these tensors.
TensorIndex make_index(const std::vector<TestTensor> &tensors,
                       std::shared_ptr<ReaderControl> control);
// An index over this file.
TensorIndex make_index_of_file(std::vector<uint8_t> file, std::shared_ptr<ReaderControl> control);

struct SyntheticShape {
  // Expert width (a multiple of 1) of each layer; 0: a layer without experts.
  std::vector<uint32_t> layer_widths = {0, 16, 16};
  uint32_t n_experts = 8;
  uint32_t model_width = 24;
};

struct SyntheticModel {
  explicit SyntheticModel(const SyntheticShape &shape_in);

  SyntheticShape shape;
  std::shared_ptr<ReaderControl> control = std::make_shared<ReaderControl>();
  TensorIndex index;
  ModelSources sources;

  uint64_t expert_bytes(uint32_t layer) const;  // packed
  // Offset of an expert's gate, up or down matrix, which is what the control counts by.
  uint64_t offset_of(ExpertId id, const char *matrix) const;
};

// Whether the packed weights are those of this expert, element by element.
bool has_weights_of(const ExpertView &view, ExpertId id);

}  // namespace colibri::test

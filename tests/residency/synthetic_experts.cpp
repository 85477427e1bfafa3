// SPDX-License-Identifier: Apache-2.0
//
// The file is a plain safetensors file of float32 matrices. A weight is a whole number below 2^24
// and so exact.

#include "tests/residency/synthetic_experts.h"

#include <cstring>
#include <utility>

namespace colibri::test {
namespace {

class ControlledReader : public Reader {
 public:
  ControlledReader(std::vector<uint8_t> bytes, std::shared_ptr<ReaderControl> control)
      : bytes_(std::move(bytes)), control_(std::move(control)) {}
  uint64_t size() const noexcept override { return bytes_.size(); }
  const std::string &name() const noexcept override { return name_; }
  Status read_at(uint64_t offset, void *destination, size_t bytes) const noexcept override {
    if (control_->enter_read(offset)) {
      return make_status(StatusCode::kIo, "%s: injected failure at offset %llu", name_.c_str(),
                         static_cast<unsigned long long>(offset));
    }
    if (offset > bytes_.size() || bytes > bytes_.size() - offset) {
      return make_status(StatusCode::kIo, "%s: end of file", name_.c_str());
    }
    if (bytes != 0) std::memcpy(destination, bytes_.data() + offset, bytes);
    return Status();
  }

 private:
  std::vector<uint8_t> bytes_;
  std::shared_ptr<ReaderControl> control_;
  std::string name_ = "synthetic.safetensors";
};

std::string expert_name(ExpertId id, const char *matrix) {
  return "layers." + std::to_string(id.layer) + ".experts." + std::to_string(id.expert) + "." +
         matrix;
}

// Distinct for every (layer, expert, matrix), and not constant inside a matrix.
float weight_of(ExpertId id, uint32_t matrix, uint64_t row, uint64_t column) {
  const uint64_t owner = (uint64_t{id.layer} * 97 + id.expert) * 3 + matrix;
  return static_cast<float>(owner * 1000 + (row * 31 + column) % 997);
}

TestTensor make_matrix(ExpertId id, uint32_t matrix, const char *name, uint64_t rows,
                       uint64_t columns) {
  TestTensor tensor{expert_name(id, name), "F32", {rows, columns}, {}};
  tensor.bytes.resize(rows * columns * sizeof(float));
  for (uint64_t row = 0; row < rows; ++row) {
    for (uint64_t column = 0; column < columns; ++column) {
      const float weight = weight_of(id, matrix, row, column);
      std::memcpy(&tensor.bytes[(row * columns + column) * sizeof weight], &weight, sizeof weight);
    }
  }
  return tensor;
}

std::vector<TestTensor> make_tensors(const SyntheticShape &shape) {
  std::vector<TestTensor> tensors;
  for (uint32_t layer = 0; layer < shape.layer_widths.size(); ++layer) {
    const uint64_t width = shape.layer_widths[layer];
    for (uint32_t expert = 0; width != 0 && expert < shape.n_experts; ++expert) {
      const ExpertId id{layer, expert};
      tensors.push_back(make_matrix(id, 0, "gate", width, shape.model_width));
      tensors.push_back(make_matrix(id, 1, "up", width, shape.model_width));
      tensors.push_back(make_matrix(id, 2, "down", shape.model_width, width));
    }
  }
  return tensors;
}

bool matches(const PackedMatrix &matrix, ExpertId id, uint32_t number) {
  if (matrix.layout.format != WeightFormat::kF32 || matrix.values == nullptr) return false;
  const float *values = reinterpret_cast<const float *>(matrix.values);
  for (uint64_t row = 0; row < matrix.layout.columns; ++row) {
    for (uint64_t column = 0; column < matrix.layout.depth; ++column) {
      const float value = values[(row / 16 * matrix.layout.depth + column) * 16 + row % 16];
      if (value != weight_of(id, number, row, column)) return false;
    }
  }
  return true;
}

}  // namespace

void ReaderControl::fail_at(uint64_t offset) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failing_.insert(offset);
}

void ReaderControl::stop_failing() {
  const std::lock_guard<std::mutex> lock(mutex_);
  failing_.clear();
}

void ReaderControl::hold() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_held_ = true;
}

void ReaderControl::resume() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_held_ = false;
  changed_.notify_all();
}

void ReaderControl::wait_for_held(uint32_t n_reads) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return n_held_ >= n_reads; });
}

void ReaderControl::set_hook(std::function<void()> hook) {
  const std::lock_guard<std::mutex> lock(mutex_);
  hook_ = std::move(hook);
}

uint64_t ReaderControl::n_reads_at(uint64_t offset) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = counts_.find(offset);
  return count == counts_.end() ? 0 : count->second;
}

uint64_t ReaderControl::n_reads() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t sum = 0;
  for (const auto &[offset, count] : counts_) sum += count;
  return sum;
}

void ReaderControl::reset_counts() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto &[offset, count] : counts_) count = 0;  // keeps the nodes: later reads allocate nothing
}

bool ReaderControl::enter_read(uint64_t offset) {
  std::function<void()> hook;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    hook = hook_;
  }
  if (hook) hook();
  std::unique_lock<std::mutex> lock(mutex_);
  ++counts_[offset];
  ++n_held_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !is_held_; });
  --n_held_;
  return failing_.count(offset) != 0;
}

TensorIndex make_index(const std::vector<TestTensor> &tensors,
                       std::shared_ptr<ReaderControl> control) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const TestTensor &tensor : tensors) {
    std::string shape;
    for (const uint64_t extent : tensor.shape) {
      if (!shape.empty()) shape += ',';
      shape += std::to_string(extent);
    }
    if (header.size() > 1) header += ',';
    header.append("\"").append(tensor.name).append("\":{\"dtype\":\"").append(tensor.type);
    header.append("\",\"shape\":[").append(shape).append("],\"data_offsets\":[");
    header.append(std::to_string(offset)).append(",");
    header.append(std::to_string(offset + tensor.bytes.size())).append("]}");
    offset += tensor.bytes.size();
  }
  header += "}";
  std::vector<uint8_t> file(8);
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<uint8_t>(header.size() >> (8 * i));
  file.insert(file.end(), header.begin(), header.end());
  for (const TestTensor &tensor : tensors) {
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  return make_index_of_file(std::move(file), std::move(control));
}

TensorIndex make_index_of_file(std::vector<uint8_t> file, std::shared_ptr<ReaderControl> control) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(std::make_unique<ControlledReader>(std::move(file), std::move(control)));
  return TensorIndex::from_readers(std::move(readers));
}

SyntheticModel::SyntheticModel(const SyntheticShape &shape_in)
    : shape(shape_in), index(make_index(make_tensors(shape_in), control)) {
  sources.layers.resize(shape.layer_widths.size());
  for (uint32_t layer = 0; layer < shape.layer_widths.size(); ++layer) {
    const uint64_t width = shape.layer_widths[layer];
    for (uint32_t expert = 0; width != 0 && expert < shape.n_experts; ++expert) {
      const ExpertId id{layer, expert};
      ExpertSource source;
      source.gate = find_matrix(index, expert_name(id, "gate"), width, shape.model_width);
      source.up = find_matrix(index, expert_name(id, "up"), width, shape.model_width);
      source.down = find_matrix(index, expert_name(id, "down"), shape.model_width, width);
      sources.layers[layer].experts.push_back(source);
    }
  }
  control->reset_counts();
}

uint64_t SyntheticModel::expert_bytes(uint32_t layer) const {
  const auto panels = [](uint64_t columns) { return (columns + 15) / 16 * 16; };
  const uint64_t width = shape.layer_widths[layer];
  const uint64_t floats = 2 * panels(width) * shape.model_width + panels(shape.model_width) * width;
  return (floats * sizeof(float) + 4095) / 4096 * 4096;
}

uint64_t SyntheticModel::offset_of(ExpertId id, const char *matrix) const {
  return index.find(expert_name(id, matrix))->offset;
}

bool has_weights_of(const ExpertView &view, ExpertId id) {
  return matches(view.gate, id, 0) && matches(view.up, id, 1) && matches(view.down, id, 2);
}

}  // namespace colibri::test

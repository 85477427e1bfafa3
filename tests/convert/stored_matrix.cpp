// SPDX-License-Identifier: Apache-2.0

#include "tests/convert/stored_matrix.h"

#include <cstring>
#include <random>

#include "lib/base/number_formats.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr const char *kName = "matrix";

// The same numbers for the same name.
class Numbers {
 public:
  explicit Numbers(const std::string &name) {
    std::seed_seq seed(name.begin(), name.end());
    random_.seed(seed);
  }

  std::string bytes(uint64_t n) {
    std::string result(n, '\0');
    for (char &c : result) c = static_cast<char>(random_() >> 11);
    return result;
  }
  std::string fp8(uint64_t n) {
    std::string result = bytes(n);
    for (char &c : result) {
      if ((c & 0x7F) == 0x7F) c = 0;  // NaN
    }
    return result;
  }
  std::string halves(uint64_t n, uint16_t (*round)(float)) {
    std::string result(2 * n, '\0');
    for (uint64_t i = 0; i < n; ++i) {
      const uint16_t half = round(next());
      std::memcpy(result.data() + 2 * i, &half, sizeof half);
    }
    return result;
  }
  std::string floats(uint64_t n) {
    std::vector<float> values(n);
    for (float &value : values) value = next();
    return float_bytes(values);
  }
  // Positive, as scales are.
  std::string scales(uint64_t n) {
    std::vector<float> values(n);
    for (float &value : values) value = 0.001f + 0.01f * (1.0f + next());
    return float_bytes(values);
  }

 private:
  // Between -1 and 1, finer than any format of 16 bits.
  float next() {
    return static_cast<float>(static_cast<int32_t>(random_() >> 8) - (1 << 23)) / 8388608.0f;
  }

  std::mt19937 random_;
};

uint64_t divide_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

std::vector<TestTensor> make_stored_matrix(const std::string &form, const std::string &name,
                                           uint64_t rows, uint64_t columns) {
  Numbers numbers(form + name);
  const uint64_t n = rows * columns;
  const std::vector<uint64_t> shape = {rows, columns};
  const std::vector<uint64_t> blocks = {divide_up(rows, 128), divide_up(columns, 128)};
  const uint64_t n_blocks = blocks[0] * blocks[1];
  const std::string scales = name + ".qs";
  if (form == "F32") return {{name, form, shape, numbers.floats(n)}};
  if (form == "F16") return {{name, form, shape, numbers.halves(n, float_to_f16)}};
  if (form == "BF16") return {{name, form, shape, numbers.halves(n, float_to_bf16)}};
  if (form == "F8") {
    return {{name, "F8_E4M3", shape, numbers.fp8(n)},
            {name + "_scale_inv", "F32", blocks, numbers.scales(n_blocks)}};
  }
  if (form == "container F8") {
    return {{name, "U8", shape, numbers.fp8(n)},
            {scales, "F32", {n_blocks}, numbers.scales(n_blocks)}};
  }
  if (form == "INT8") {
    return {{name, "U8", shape, numbers.bytes(n)}, {scales, "F32", {rows}, numbers.scales(rows)}};
  }
  REQUIRE(form.substr(0, 4) == "INT4");
  const uint64_t row_bytes = divide_up(columns, 2);
  const uint64_t group = form.size() > 4 ? std::stoull(form.substr(5)) : columns;
  const uint64_t n_scales = rows * divide_up(columns, group);
  return {{name, "U8", {rows, row_bytes}, numbers.bytes(rows * row_bytes)},
          {scales, "F32", {n_scales}, numbers.scales(n_scales)}};
}

StoredMatrix::StoredMatrix(const std::string &form, uint64_t rows, uint64_t columns)
    : StoredMatrix(make_stored_matrix(form, kName, rows, columns), rows, columns) {}

StoredMatrix::StoredMatrix(const std::vector<TestTensor> &tensors, uint64_t rows, uint64_t columns)
    : index_([&] {
        std::vector<std::unique_ptr<Reader>> readers;
        readers.push_back(memory_reader("memory.safetensors", safetensors_file(tensors)));
        return TensorIndex::from_readers(std::move(readers));
      }()),
      source_(find_matrix(index_, tensors[0].name, rows, columns)) {}

std::vector<float> StoredMatrix::weights() const {
  std::vector<float> weights(source_.rows * source_.columns);
  read_dequantised(index_, source_, weights.data());
  return weights;
}

}  // namespace colibri::test

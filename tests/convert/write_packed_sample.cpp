// SPDX-License-Identifier: Apache-2.0
//
// Writes a small packed snapshot with matrices of every format and form to the folder given, and
// prints their weights as JSON, for readers in other languages:
//   [{"tensor": name, "part": n, "head": n, "weights": [column 0 at depth 0, at depth 1, ..]}, ..]
// The weights come from the row-major matrices before they were packed.

#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "lib/base/number_formats.h"
#include "lib/convert/packed_writer.h"

using namespace colibri;

namespace {

// A row-major matrix with scales, and what its weights are.
class SampleMatrix {
 public:
  SampleMatrix(const WeightLayout &layout, uint32_t seed) : layout_(layout), random_(seed) {
    make_scales();
    weights_.resize(size_t{layout.columns} * layout.depth);
    const bool has_nibbles =
        layout.format == WeightFormat::kInt4 || layout.format == WeightFormat::kMxFp4;
    const size_t row_bytes =
        has_nibbles ? (layout.depth + size_t{1}) / 2 : layout.depth * element_bytes();
    values_.resize(layout.columns * row_bytes);
    for (size_t c = 0; c < layout.columns; ++c) {
      for (size_t d = 0; d < layout.depth; ++d) {
        const float code = put_value(&values_[c * row_bytes], d);
        weights_[c * layout.depth + d] = layout.has_scales() ? code * scale_of(c, d) : code;
      }
    }
  }

  std::vector<uint8_t> pack() const {
    std::vector<uint8_t> bytes(layout_.total_bytes());
    pack_matrix(layout_, {values_.data(), scales_.data(), exponents_.data()}, bytes.data());
    return bytes;
  }
  const std::vector<float> &weights() const { return weights_; }

 private:
  size_t element_bytes() const {
    if (layout_.format == WeightFormat::kF32) return 4;
    return layout_.format == WeightFormat::kBF16 || layout_.format == WeightFormat::kF16 ? 2 : 1;
  }

  size_t scale_rows() const {
    const bool is_fp8 = layout_.format == WeightFormat::kFp8;
    return is_fp8 ? (layout_.columns + size_t{127}) / 128 : layout_.columns;
  }

  // Seven significant bits, so that BF16 holds them as well.
  void make_scales() {
    scales_.resize(scale_rows() * layout_.scale_groups());
    for (float &scale : scales_) scale = static_cast<float>(random_() % 127 + 1) / 512.0f;
    if (layout_.format != WeightFormat::kMxFp4) return;
    for (float &scale : scales_) {
      exponents_.push_back(static_cast<uint8_t>(random_() % 240));
      scale = e8m0_to_float(exponents_.back());
    }
  }

  float scale_of(size_t column, size_t depth) const {
    const size_t row = layout_.format == WeightFormat::kFp8 ? column / 128 : column;
    const size_t group = layout_.has_row_scale ? 0 : depth / layout_.group;
    return scales_[row * layout_.scale_groups() + group];
  }

  // Writes one element of a row, returns its value without scale.
  float put_value(uint8_t *row, size_t d) {
    const int code = static_cast<int>(random_() % 256) - 128;
    const float eighths = static_cast<float>(code) / 8.0f;  // exact in every plain format
    switch (layout_.format) {
      case WeightFormat::kF32:
        std::memcpy(row + 4 * d, &eighths, 4);
        return eighths;
      case WeightFormat::kBF16:
        return put_half(row + 2 * d, float_to_bf16(eighths), eighths);
      case WeightFormat::kF16:
        return put_half(row + 2 * d, float_to_f16(eighths), eighths);
      case WeightFormat::kFp8:
        row[d] = static_cast<uint8_t>((code & 127) == 127 ? 0 : code);  // no NaN
        return fp8_e4m3_to_float(row[d]);
      case WeightFormat::kInt8:
        row[d] = static_cast<uint8_t>(code);
        return static_cast<float>(code);
      case WeightFormat::kInt4:
        row[d / 2] = static_cast<uint8_t>(row[d / 2] | (code & 15) << (d % 2 * 4));
        return static_cast<float>((code & 15) - 8);
      case WeightFormat::kMxFp4:
        row[d / 2] = static_cast<uint8_t>(row[d / 2] | (code & 15) << (d % 2 * 4));
        return fp4_e2m1_to_float(static_cast<uint8_t>(code & 15));
    }
    return 0.0f;
  }

  static float put_half(uint8_t *to, uint16_t bits, float value) {
    std::memcpy(to, &bits, sizeof bits);
    return value;
  }

  WeightLayout layout_;
  std::mt19937 random_;
  std::vector<uint8_t> values_;
  std::vector<float> scales_;
  std::vector<uint8_t> exponents_;  // MXFP4: of the scales
  std::vector<float> weights_;
};

WeightLayout layout(WeightFormat format, uint32_t columns, uint32_t depth, uint32_t group = 0,
                    ScaleType scales = ScaleType::kF32) {
  WeightLayout result;
  result.format = format;
  result.columns = columns;
  result.depth = depth;
  result.has_row_scale = result.is_integer() && group == 0;
  result.group = result.has_row_scale ? kRowScaleActivationGroup : group;
  result.scale_type = scales;
  return result;
}

// Makes contents of packed tensors and prints their weights.
class SamplePrinter {
 public:
  std::vector<uint8_t> make(const OutputTensor &tensor) {
    std::vector<uint8_t> bytes;
    for (uint32_t head = 0; head < tensor.layout->n_heads; ++head) {
      for (size_t part = 0; part < tensor.layout->parts.size(); ++part) {
        const SampleMatrix matrix(tensor.layout->parts[part], n_matrices_);
        const std::vector<uint8_t> packed = matrix.pack();
        bytes.insert(bytes.end(), packed.begin(), packed.end());
        print(tensor.name, part, head, matrix.weights());
      }
    }
    bytes.resize(tensor.bytes);
    return bytes;
  }

 private:
  // With a point or an exponent, so that a minus before zero is read as one.
  void print(const std::string &name, size_t part, uint32_t head,
             const std::vector<float> &weights) {
    std::printf("%s{\"tensor\":\"%s\",\"part\":%zu,\"head\":%u,\"weights\":[",
                n_matrices_++ == 0 ? "" : ",\n", name.c_str(), part, head);
    for (size_t i = 0; i < weights.size(); ++i) {
      std::printf("%s%.9e", i == 0 ? "" : ",", static_cast<double>(weights[i]));
    }
    std::printf("]}");
  }

  uint32_t n_matrices_ = 0;
};

void add_packed(PackedWriterPlan *plan, const std::string &name, PackedForm form,
                const std::vector<WeightLayout> &parts, uint32_t n_heads = 1) {
  const PackedLayout packed{form, n_heads, parts};
  plan->tensors.push_back({name, "U8", {packed.tensor_bytes()}, packed.tensor_bytes(), packed});
}

PackedWriterPlan make_plan(const std::string &destination) {
  using F = WeightFormat;
  PackedWriterPlan plan;
  plan.destination = destination;
  plan.model_type = "sample";
  plan.options = {"int4", "int8", "keep", "keep", 32, "search"};
  plan.max_shard_bytes = 50'000;
  const auto add_matrix = [&](const std::string &name, const WeightLayout &matrix) {
    add_packed(&plan, name, PackedForm::kMatrix, {matrix});
  };
  add_matrix("example", layout(F::kInt4, 40, 100, 32, ScaleType::kBF16));
  add_matrix("int4 row", layout(F::kInt4, 5, 37));
  add_matrix("int8", layout(F::kInt8, 33, 70, 64, ScaleType::kBF16));
  add_matrix("int8 row", layout(F::kInt8, 16, 9));
  add_matrix("fp8", layout(F::kFp8, 130, 133, 128));
  add_matrix("f32", layout(F::kF32, 7, 5));
  add_matrix("bf16", layout(F::kBF16, 17, 3));
  add_matrix("f16", layout(F::kF16, 18, 6));
  const WeightLayout gate = layout(F::kInt4, 24, 48, 16, ScaleType::kBF16);
  add_packed(&plan, "expert", PackedForm::kExpert, {gate, gate, layout(F::kInt8, 48, 24, 16)});
  const WeightLayout fp4_gate = layout(F::kMxFp4, 20, 64, 32, ScaleType::kE8M0);
  const WeightLayout fp4_bias = layout(F::kF32, 20, 1);
  add_matrix("mxfp4", layout(F::kMxFp4, 33, 100, 32, ScaleType::kE8M0));
  add_packed(&plan, "expert with biases", PackedForm::kExpert,
             {fp4_gate, fp4_gate, layout(F::kMxFp4, 64, 20, 32, ScaleType::kE8M0), fp4_bias,
              fp4_bias, layout(F::kF32, 64, 1)});
  add_packed(&plan, "heads", PackedForm::kHeads,
             {layout(F::kInt8, 20, 12, 16, ScaleType::kBF16), layout(F::kBF16, 6, 20)}, 3);
  plan.tensors.push_back({"plain", "F32", {3}, 12, std::nullopt});
  return plan;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_packed_sample FOLDER\n");
    return 2;
  }
  try {
    PackedWriter writer(make_plan(argv[1]), false);
    SamplePrinter printer;
    std::printf("[");
    for (size_t i = 0; i < writer.plan().tensors.size(); ++i) {
      const float numbers[] = {1.0f, 2.0f, 3.0f};
      std::vector<uint8_t> bytes(sizeof numbers);
      std::memcpy(bytes.data(), numbers, sizeof numbers);
      if (writer.plan().tensors[i].layout) bytes = printer.make(writer.plan().tensors[i]);
      writer.append(i, bytes);
      writer.finish_tensor(i);
    }
    std::printf("]\n");
    writer.publish(nullptr);
  } catch (const Error &error) {
    std::fprintf(stderr, "write_packed_sample: %s\n", error.what());
    return 1;
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/weight_packing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/base/file.h"
#include "lib/residency/expert_layout.h"
#include "tests/residency/packed_experts.h"
#include "tests/residency/packed_reading.h"
#include "tests/residency/synthetic_experts.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using colibri::test::make_index;
using colibri::test::ReaderControl;
using colibri::test::TestTensor;

constexpr uint8_t kPattern = 0xA5;

// Loads the matrix into memory that is exactly as large as promised and compares every weight with
// the definition. Returns the number of weights that differ.
uint64_t count_differences(const TensorIndex &index, const WeightSource &source) {
  const WeightLayout layout = packed_layout(source);
  const size_t bytes = layout.total_bytes();
  Buffer destination(bytes + 64, "destination");
  std::memset(destination.data(), kPattern, bytes + 64);
  Buffer staging(staging_bytes(source), "staging");
  uint64_t read_bytes = 7;
  const Status status =
      load_packed(index, source, {staging.data(), staging.size()}, destination.data(), &read_bytes);
  INFO(source.name << ": " << status.message());
  REQUIRE(status.is_ok());
  REQUIRE(read_bytes == 7 + source.stored_bytes());
  REQUIRE(layout.columns == source.rows);
  REQUIRE(layout.depth == source.columns);
  REQUIRE(std::all_of(destination.data() + bytes, destination.data() + bytes + 64,
                      [](uint8_t byte) { return byte == kPattern; }));

  std::vector<float> expected(source.rows * source.columns);
  read_dequantised(index, source, expected.data());
  const PackedMatrix matrix{layout, destination.data()};
  uint64_t n_differences = 0;
  for (uint64_t row = 0; row < source.rows; ++row) {
    for (uint64_t column = 0; column < source.columns; ++column) {
      const float value = test::packed_weight(matrix, row, column);
      const float wanted = expected[row * source.columns + column];
      if (std::bit_cast<uint32_t>(value) != std::bit_cast<uint32_t>(wanted)) ++n_differences;
    }
  }
  return n_differences;
}

std::vector<const WeightSource *> all_matrices(const ModelSources &sources) {
  std::vector<const WeightSource *> matrices = {&sources.embedding, &sources.final_norm,
                                                &sources.head};
  for (const LayerSources &layer : sources.layers) {
    for (const WeightSource *matrix :
         {&layer.input_norm, &layer.query_a, &layer.query_b, &layer.kv_a, &layer.kv_b,
          &layer.output, &layer.index_query, &layer.index_key, &layer.index_weights,
          &layer.dense_gate, &layer.dense_up, &layer.dense_down, &layer.router}) {
      if (!matrix->name.empty()) matrices.push_back(matrix);
    }
    for (const ExpertSource &expert : layer.experts) {
      matrices.insert(matrices.end(), {&expert.gate, &expert.up, &expert.down});
    }
  }
  return matrices;
}

struct Random {
  uint32_t state = 12345;
  uint8_t byte() {
    state = state * 1664525u + 1013904223u;
    return static_cast<uint8_t>(state >> 24);
  }
  std::vector<uint8_t> bytes(size_t n) {
    std::vector<uint8_t> result(n);
    for (uint8_t &value : result) value = byte();
    return result;
  }
  // Finite floats of every sign and many sizes.
  std::vector<uint8_t> floats(size_t n) {
    std::vector<uint8_t> result;
    for (size_t i = 0; i < n; ++i) {
      const float value = static_cast<float>(byte() - 128) / 64.0f + 0.001f;
      const auto raw = std::bit_cast<std::array<uint8_t, 4>>(value);
      result.insert(result.end(), raw.begin(), raw.end());
    }
    return result;
  }
};

uint64_t round_up(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

uint64_t count_differences(const std::vector<TestTensor> &tensors, uint64_t rows, uint64_t columns,
                           StoredFormat format) {
  const TensorIndex index = make_index(tensors, std::make_shared<ReaderControl>());
  const WeightSource source = find_matrix(index, tensors[0].name, rows, columns);
  REQUIRE(source.format == format);
  return count_differences(index, source);
}

const std::vector<std::pair<uint64_t, uint64_t>> kAwkwardShapes = {{1, 1},  {15, 7},   {16, 8},
                                                                   {17, 9}, {40, 130}, {129, 257}};

}  // namespace

TEST_CASE("every matrix of every test snapshot is packed exactly") {
  std::map<std::string, uint64_t> seen;
  for (const char *folder :
       {"glm_moe_dsa-dense-index", "glm_moe_dsa-fp8", "glm_moe_dsa-int4g64", "glm_moe_dsa-int4row",
        "glm_moe_dsa-int8row", "glm_moe_dsa-mtp", "glm_moe_dsa-sparse"}) {
    const Snapshot snapshot = Snapshot::open(std::string(COLIBRI_TEST_DATA) + "/" + folder);
    for (const WeightSource *source : all_matrices(snapshot.sources())) {
      INFO(folder << " " << source->name);
      REQUIRE(count_differences(snapshot.index(), *source) == 0);
      ++seen[stored_format_name(source->format)];
    }
  }
  for (const char *format : {"int4-grouped", "int4-row", "int8-row"}) REQUIRE(seen[format] > 0);
  REQUIRE(seen.size() >= 5);
}

TEST_CASE("plain formats of awkward shapes are packed exactly") {
  Random random;
  for (const auto &[rows, columns] : kAwkwardShapes) {
    INFO(rows << " x " << columns);
    REQUIRE(count_differences({{"x", "F32", {rows, columns}, random.floats(rows * columns)}}, rows,
                              columns, StoredFormat::kF32) == 0);
    REQUIRE(count_differences({{"x", "BF16", {rows, columns}, random.bytes(2 * rows * columns)}},
                              rows, columns, StoredFormat::kBF16) == 0);
    REQUIRE(count_differences({{"x", "F16", {rows, columns}, random.bytes(2 * rows * columns)}},
                              rows, columns, StoredFormat::kF16) == 0);
  }
}

TEST_CASE("container formats of awkward shapes are packed exactly") {
  Random random;
  for (const auto &[rows, columns] :
       std::vector<std::pair<uint64_t, uint64_t>>{{17, 20}, {15, 33}, {48, 131}, {129, 258}}) {
    INFO(rows << " x " << columns);
    REQUIRE(count_differences({{"x", "U8", {rows * columns}, random.bytes(rows * columns)},
                               {"x.qs", "F32", {rows}, random.floats(rows)}},
                              rows, columns, StoredFormat::kInt8Row) == 0);
    const uint64_t bytes = rows * round_up(columns, 2);
    REQUIRE(count_differences({{"x", "U8", {bytes}, random.bytes(bytes)},
                               {"x.qs", "F32", {rows}, random.floats(rows)}},
                              rows, columns, StoredFormat::kInt4Row) == 0);
    const uint64_t n_scales = rows * round_up(columns, 16);
    REQUIRE(count_differences({{"x", "U8", {bytes}, random.bytes(bytes)},
                               {"x.qs", "F32", {n_scales}, random.floats(n_scales)}},
                              rows, columns, StoredFormat::kInt4Grouped) == 0);
  }
}

TEST_CASE("FP8 blocks are packed exactly with F32, BF16 and exponent scales") {
  Random random;
  for (const auto &[rows, columns] : kAwkwardShapes) {
    INFO(rows << " x " << columns);
    const TestTensor values{"x", "F8_E4M3", {rows, columns}, random.bytes(rows * columns)};
    const std::vector<uint64_t> blocks = {round_up(rows, 128), round_up(columns, 128)};
    const uint64_t n = blocks[0] * blocks[1];
    REQUIRE(count_differences({values, {"x_scale_inv", "F32", blocks, random.floats(n)}}, rows,
                              columns, StoredFormat::kFp8Block) == 0);
    REQUIRE(count_differences({values, {"x_scale_inv", "BF16", blocks, random.bytes(2 * n)}}, rows,
                              columns, StoredFormat::kFp8Block) == 0);
    REQUIRE(count_differences({values, {"x_scale_inv", "F8_E8M0", blocks, random.bytes(n)}}, rows,
                              columns, StoredFormat::kFp8Block) == 0);
  }
}

TEST_CASE("the smallest exponent scale stays a subnormal and is not flushed to zero") {
  const TensorIndex index = make_index(
      {{"x", "F8_E4M3", {1, 1}, {0x38}}, {"x_scale_inv", "F8_E8M0", {1, 1}, {0}}},  // 1.0 * 2^-127
      std::make_shared<ReaderControl>());
  const WeightSource source = find_matrix(index, "x", 1, 1);
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  std::vector<uint8_t> staging(staging_bytes(source));
  REQUIRE(load_packed(index, source, staging, destination.data(), nullptr).is_ok());
  const PackedMatrix matrix{packed_layout(source), destination.data()};
  REQUIRE(std::memcmp(matrix.scales(), "\0\0\x40\0", 4) == 0);
}

TEST_CASE("a failed read of values or of scales is an I/O error that names the tensor") {
  Random random;
  auto control = std::make_shared<ReaderControl>();
  const TensorIndex index = make_index({{"layers.3.x", "U8", {320}, random.bytes(320)},
                                        {"layers.3.x.qs", "F32", {16}, random.floats(16)}},
                                       control);
  const WeightSource source = find_matrix(index, "layers.3.x", 16, 20);
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  std::vector<uint8_t> staging(staging_bytes(source));
  for (const TensorSpan &span : {source.values, source.scales}) {
    control->fail_at(span.offset);
    uint64_t read_bytes = 0;
    const Status status = load_packed(index, source, staging, destination.data(), &read_bytes);
    REQUIRE(status.code() == StatusCode::kIo);
    REQUIRE(std::string(status.message()).find("layers.3.x") != std::string::npos);
    REQUIRE(std::string(status.message()).find("synthetic.safetensors") != std::string::npos);
    control->stop_failing();
    REQUIRE(load_packed(index, source, staging, destination.data(), &read_bytes).is_ok());
    REQUIRE(read_bytes == source.stored_bytes());
  }
}

TEST_CASE("too little staging is refused before anything is written") {
  Random random;
  auto control = std::make_shared<ReaderControl>();
  const TensorIndex index = make_index({{"x", "F32", {8, 8}, random.floats(64)}}, control);
  const WeightSource source = find_matrix(index, "x", 8, 8);
  control->reset_counts();
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  std::vector<uint8_t> staging(staging_bytes(source) - 1);
  const Status status = load_packed(index, source, staging, destination.data(), nullptr);
  REQUIRE(status.code() == StatusCode::kInternal);
  REQUIRE(control->n_reads() == 0);
}

TEST_CASE(
    "scales that are not as many as the shape asks for are refused, never read past the end") {
  Random random;
  auto control = std::make_shared<ReaderControl>();
  const TensorIndex index = make_index(
      {{"x", "U8", {320}, random.bytes(320)}, {"x.qs", "F32", {16}, random.floats(16)}}, control);
  WeightSource source = find_matrix(index, "x", 16, 20);
  source.rows = 8;  // a slice that forgot to cut its scales
  source.values.bytes = 160;
  control->reset_counts();
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  std::vector<uint8_t> staging(staging_bytes(source));
  REQUIRE(load_packed(index, source, staging, destination.data(), nullptr).code() ==
          StatusCode::kInternal);
  REQUIRE(control->n_reads() == 0);
}

TEST_CASE("a packed matrix is read to its place with one read and no staging") {
  const auto made = test::make_packed_matrix(WeightFormat::kInt8, 17, 40, 16, ScaleType::kBF16);
  test::PackedShard shard;
  shard.add_matrix("x", made);
  auto control = std::make_shared<ReaderControl>();
  const TensorIndex index = test::make_packed_index(shard, control);
  const WeightSource source = find_matrix(index, "x", 17, 40);
  REQUIRE(packed_layout(source) == made.layout);
  REQUIRE(staging_bytes(source) == 0);
  control->reset_counts();
  Buffer destination(made.bytes.size() + 64, "destination");
  std::memset(destination.data(), kPattern, destination.size());
  uint64_t read_bytes = 7;
  REQUIRE(load_packed(index, source, {}, destination.data(), &read_bytes).is_ok());
  REQUIRE(control->n_reads() == 1);
  REQUIRE(control->n_reads_at(source.values.offset) == 1);
  REQUIRE(read_bytes == 7 + made.bytes.size());
  REQUIRE(test::has_weights({made.layout, destination.data()}, made));
  REQUIRE(destination.data()[made.bytes.size()] == kPattern);
}

TEST_CASE("a failed read of a packed matrix names tensor and file and counts no bytes") {
  test::PackedShard shard;
  shard.add_matrix("layers.3.x", test::make_packed_matrix(WeightFormat::kInt4, 16, 32));
  auto control = std::make_shared<ReaderControl>();
  const TensorIndex index = test::make_packed_index(shard, control);
  const WeightSource source = find_matrix(index, "layers.3.x", 16, 32);
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  control->fail_at(source.values.offset);
  uint64_t read_bytes = 0;
  const Status status = load_packed(index, source, {}, destination.data(), &read_bytes);
  REQUIRE(status.code() == StatusCode::kIo);
  REQUIRE(std::string(status.message()).find("layers.3.x") != std::string::npos);
  REQUIRE(std::string(status.message()).find("synthetic.safetensors") != std::string::npos);
  REQUIRE(read_bytes == 0);
}

namespace {

// A tensor that holds all experts of a layer and, for MXFP4, the one with its exponents; one
// expert's slice of them is a source. The number of stored rows of an expert is given.
struct FusedTensors {
  FusedTensors(StoredFormat stored_format, uint64_t n_rows, uint64_t n_columns)
      : format(stored_format), rows(n_rows), columns(n_columns) {
    Random random;
    const bool is_mxfp4 = format == StoredFormat::kMxFp4;
    const uint64_t bytes = is_mxfp4                       ? rows * ((columns + 1) / 2)
                           : format == StoredFormat::kF32 ? 4 * rows * columns
                                                          : 2 * rows * columns;
    std::vector<uint8_t> values =
        format == StoredFormat::kF32 ? random.floats(2 * rows * columns) : random.bytes(2 * bytes);
    if (format != StoredFormat::kF32 && !is_mxfp4) {
      for (size_t i = 1; i < values.size(); i += 2) values[i] &= 0xBF;  // no NaN
    }
    tensors.push_back(
        {"x_blocks", is_mxfp4 ? "U8" : type_name(), {2, values.size() / 2 / width()}, values});
    if (is_mxfp4) {
      const uint64_t n = 2 * rows * ((columns + 31) / 32);
      std::vector<uint8_t> exponents = random.bytes(n);
      for (uint8_t &byte : exponents) byte = static_cast<uint8_t>(byte % 200);
      tensors.push_back({"x_scales", "U8", {n}, exponents});
    }
    index = std::make_unique<TensorIndex>(make_index(tensors, control));
    control->reset_counts();
  }

  const char *type_name() const {
    return format == StoredFormat::kF32 ? "F32" : format == StoredFormat::kBF16 ? "BF16" : "F16";
  }
  uint64_t width() const {
    return format == StoredFormat::kMxFp4 ? 1 : format == StoredFormat::kF32 ? 4 : 2;
  }

  // Rows first, first + step, .. of the second expert.
  WeightSource part(uint64_t first, uint64_t step, uint64_t n) const {
    WeightSource source;
    source.name = "x";
    source.format = format;
    source.rows = n;
    source.columns = columns;
    source.first_row = first;
    source.row_step = step;
    source.stored_rows = rows;
    source.values = slice_of("x_blocks");
    if (format == StoredFormat::kMxFp4) {
      source.scales = slice_of("x_scales");
      source.scale_type = TensorType::kF8E8M0;
    }
    return source;
  }
  TensorSpan slice_of(const char *name) const {
    const TensorInfo &info = *index->find(name);
    return {info.file, info.offset + info.bytes / 2, info.bytes / 2};
  }

  StoredFormat format;
  uint64_t rows, columns;
  std::shared_ptr<ReaderControl> control = std::make_shared<ReaderControl>();
  std::vector<TestTensor> tensors;
  std::unique_ptr<TensorIndex> index;
};

}  // namespace

TEST_CASE("MXFP4 blocks are packed exactly, also every other row of them") {
  for (const auto &[rows, columns] : {std::pair<uint64_t, uint64_t>{34, 64}, {66, 2880}, {6, 96}}) {
    const FusedTensors fused(StoredFormat::kMxFp4, rows, columns);
    CAPTURE(rows, columns);
    REQUIRE(count_differences(*fused.index, fused.part(0, 1, rows)) == 0);
    REQUIRE(count_differences(*fused.index, fused.part(0, 2, rows / 2)) == 0);
    REQUIRE(count_differences(*fused.index, fused.part(1, 2, rows / 2)) == 0);
    REQUIRE(count_differences(*fused.index, fused.part(rows / 2, 1, rows / 2)) == 0);
  }
}

TEST_CASE("parts of plain tensors are packed exactly, inputs first or outputs first") {
  for (const StoredFormat format : {StoredFormat::kF32, StoredFormat::kBF16, StoredFormat::kF16}) {
    const FusedTensors fused(format, 42, 50);
    for (const bool is_transposed : {false, true}) {
      CAPTURE(stored_format_name(format), is_transposed);
      for (const auto &[first, step] : {std::pair<uint64_t, uint64_t>{0, 2}, {1, 2}, {21, 1}}) {
        WeightSource source = fused.part(first, step, 21);
        source.is_transposed = is_transposed;
        REQUIRE(count_differences(*fused.index, source) == 0);
      }
    }
  }
}

TEST_CASE("exponents of the wrong number are refused before a read") {
  const FusedTensors fused(StoredFormat::kMxFp4, 4, 64);
  WeightSource source = fused.part(0, 1, 4);
  source.scales.bytes -= 1;
  Buffer destination(packed_layout(source).total_bytes(), "destination");
  Buffer staging(staging_bytes(source), "staging");
  REQUIRE(load_packed(*fused.index, source, {staging.data(), staging.size()}, destination.data(),
                      nullptr)
              .code() == StatusCode::kInternal);
  REQUIRE(fused.control->n_reads() == 0);
}

TEST_CASE("gate and up of one tensor are read once, and biases stand behind the matrices") {
  const FusedTensors matrices(StoredFormat::kMxFp4, 40, 64);
  // Biases of two experts: 40 of gate and up, 64 of down.
  for (const StoredFormat format : {StoredFormat::kBF16, StoredFormat::kF32}) {
    std::vector<TestTensor> tensors = matrices.tensors;
    const FusedTensors gate_up(format, 40, 1), down(format, 64, 1),
        third(StoredFormat::kMxFp4, 64, 32);
    tensors.push_back({"gate_up_bias", gate_up.type_name(), {2, 40}, gate_up.tensors[0].bytes});
    tensors.push_back({"down_bias", down.type_name(), {2, 64}, down.tensors[0].bytes});
    tensors.push_back({"down", "U8", {third.tensors[0].bytes.size()}, third.tensors[0].bytes});
    tensors.push_back({"scales", "U8", {third.tensors[1].bytes.size()}, third.tensors[1].bytes});
    auto control = std::make_shared<ReaderControl>();
    const TensorIndex index = make_index(tensors, control);
    const auto slice_of = [&](const char *name) {
      const TensorInfo &info = *index.find(name);
      return TensorSpan{info.file, info.offset + info.bytes / 2, info.bytes / 2};
    };
    ExpertSource expert;
    expert.gate = matrices.part(0, 2, 20);
    expert.gate.values = slice_of("x_blocks");
    expert.gate.scales = slice_of("x_scales");
    expert.up = expert.gate;
    expert.up.first_row = 1;
    expert.down = third.part(0, 1, 64);
    expert.down.values = slice_of("down");
    expert.down.scales = slice_of("scales");
    expert.gate_bias = gate_up.part(0, 2, 20);
    expert.gate_bias.values = slice_of("gate_up_bias");
    expert.up_bias = expert.gate_bias;
    expert.up_bias.first_row = 1;
    expert.down_bias = down.part(0, 1, 64);
    expert.down_bias.values = slice_of("down_bias");

    Buffer slot(packed_bytes(expert), "slot");
    Buffer staging(staging_bytes(expert), "staging");
    uint64_t read_bytes = 0;
    control->reset_counts();
    REQUIRE(load_expert(index, expert, {staging.data(), staging.size()}, {slot.data(), slot.size()},
                        &read_bytes)
                .is_ok());
    REQUIRE(control->n_reads_at(expert.gate.values.offset) == 1);
    REQUIRE(control->n_reads_at(expert.gate.scales.offset) == 1);
    REQUIRE(read_bytes == expert.gate.stored_bytes() + expert.down.stored_bytes() +
                              2 * expert.gate_bias.stored_bytes() +
                              expert.down_bias.stored_bytes());
    const ExpertView view = view_expert(expert, slot.data());
    const auto check = [&](const WeightSource &source, const PackedMatrix &matrix) {
      std::vector<float> expected(source.rows * source.columns);
      read_dequantised(index, source, expected.data());
      for (uint64_t i = 0; i < expected.size(); ++i) {
        const float got = test::packed_weight(matrix, i / source.columns, i % source.columns);
        REQUIRE(std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(expected[i]));
      }
    };
    check(expert.gate, view.gate);
    check(expert.up, view.up);
    check(expert.down, view.down);
    const auto check_bias = [&](const WeightSource &source, const float *bias) {
      std::vector<float> expected(source.rows);
      read_dequantised(index, source, expected.data());
      REQUIRE(std::memcmp(bias, expected.data(), expected.size() * sizeof(float)) == 0);
      REQUIRE(reinterpret_cast<const uint8_t *>(bias + expected.size()) <=
              slot.data() + slot.size());
    };
    check_bias(expert.gate_bias, view.gate_bias);
    check_bias(expert.up_bias, view.up_bias);
    check_bias(expert.down_bias, view.down_bias);
  }
}

// SPDX-License-Identifier: Apache-2.0
//
// How stored formats are recognised from types, shapes and byte counts, and what is refused.

#include "lib/snapshot/weight_source.h"

#include "tests/snapshot/fixture.h"
#include "tests/snapshot/packed_shard.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TensorIndex index_of(const std::vector<TestTensor> &tensors, const std::string &metadata = "") {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("shard.safetensors", safetensors_file(tensors, metadata)));
  return TensorIndex::from_readers(std::move(readers));
}

// A container tensor "w" of flat bytes with `n_scales` scales.
TensorIndex container(uint64_t n_bytes, uint64_t n_scales, const std::string &metadata = "") {
  return index_of({zeros("w.qs", "F32", {n_scales}), zeros("w", "U8", {n_bytes})}, metadata);
}

std::string stamp(const std::string &format) {
  return R"({"colibri.fmt":"{\"w\":\")" + format + R"(\"}"})";
}

std::string format_of(const TensorIndex &index, uint64_t rows, uint64_t columns) {
  return stored_format_name(find_matrix(index, "w", rows, columns).format);
}

void expect_refused(const TensorIndex &index, StatusCode code,
                    std::initializer_list<std::string_view> parts, uint64_t columns = 100) {
  expect_failure(code, {"w"}, [&] { find_matrix(index, "w", 6, columns); });
  expect_failure(code, parts, [&] { find_matrix(index, "w", 6, columns); });
}

}  // namespace

TEST_CASE("plain matrices are recognised by type and must have the exact shape [X-04]") {
  CHECK(format_of(index_of({zeros("w", "F32", {6, 100})}), 6, 100) == "f32");
  CHECK(format_of(index_of({zeros("w", "F16", {6, 100})}), 6, 100) == "f16");
  CHECK(format_of(index_of({zeros("w", "BF16", {6, 100})}), 6, 100) == "bf16");
  expect_refused(index_of({zeros("w", "BF16", {100, 6})}), StatusCode::kFormat,
                 {"shard.safetensors", "[100, 6]", "[6, 100]"});
  expect_refused(index_of({zeros("w", "BF16", {600})}), StatusCode::kFormat, {"[600]", "[6, 100]"});
  expect_refused(index_of({zeros("w", "BF16", {1, 6, 100})}), StatusCode::kFormat, {"[1, 6, 100]"});
  expect_refused(index_of({zeros("w", "I64", {6, 100})}), StatusCode::kUnsupported, {"I64"});
  expect_refused(index_of({zeros("v", "F32", {6, 100})}), StatusCode::kIncomplete, {"w is absent"});
}

TEST_CASE("vectors are plain and have the exact size") {
  CHECK(find_vector(index_of({zeros("n", "BF16", {5})}), "n", 5).columns == 5);
  CHECK(find_vector(index_of({zeros("n", "F32", {5})}), "n", 5).rows == 1);
  const auto refused = [](StatusCode code, const TestTensor &tensor, std::string_view part) {
    expect_failure(code, {part}, [&] { find_vector(index_of({tensor}), "n", 5); });
  };
  refused(StatusCode::kFormat, zeros("n", "F32", {4}), "[4]");
  refused(StatusCode::kFormat, zeros("n", "F32", {1, 5}), "[1, 5]");
  refused(StatusCode::kUnsupported, zeros("n", "U8", {5}), "U8");
  refused(StatusCode::kIncomplete, zeros("m", "F32", {5}), "absent");
}

TEST_CASE("a router must be plain") {
  const TensorIndex index = container(600, 6);
  CHECK(format_of(index, 6, 100) == "int8-row");
  expect_failure(StatusCode::kUnsupported, {"U8"}, [&] { find_plain_matrix(index, "w", 6, 100); });
}

TEST_CASE("scales of a plain tensor are a contradiction") {
  expect_refused(index_of({zeros("w", "BF16", {6, 100}), zeros("w.qs", "F32", {6})}),
                 StatusCode::kFormat, {".qs", "BF16"});
  expect_refused(index_of({zeros("w", "BF16", {6, 100}), zeros("w_scale_inv", "F32", {1, 1})}),
                 StatusCode::kFormat, {"_scale_inv"});
}

TEST_CASE("block FP8 has one scale per 128 x 128 block, partial blocks at the edges") {
  for (const char *type : {"F32", "BF16", "F8_E8M0"}) {
    const TensorIndex index =
        index_of({zeros("w", "F8_E4M3", {576, 300}), zeros("w_scale_inv", type, {5, 3})});
    const WeightSource source = find_matrix(index, "w", 576, 300);
    CHECK(source.format == StoredFormat::kFp8Block);
    CHECK(std::string(tensor_type_name(source.scale_type)) == type);
    CHECK(scale_rows(source) == 5);
    CHECK(scale_columns(source) == 3);
  }
}

TEST_CASE("block FP8 with scales of another shape or type, or without, is refused") {
  const TestTensor w = zeros("w", "F8_E4M3", {6, 100});
  CHECK(format_of(index_of({w, zeros("w_scale_inv", "F32", {1, 1})}), 6, 100) == "fp8-e4m3-b128");
  expect_refused(index_of({w, zeros("w_scale_inv", "F32", {1})}), StatusCode::kFormat,
                 {"[1]", "[1, 1]"});
  expect_refused(index_of({w, zeros("w_scale_inv", "F32", {1, 2})}), StatusCode::kFormat,
                 {"[1, 2]"});
  expect_refused(index_of({w, zeros("w_scale_inv", "F16", {1, 1})}), StatusCode::kUnsupported,
                 {"F16"});
  expect_refused(index_of({w}), StatusCode::kUnsupported, {"E4M3", "128"});
  expect_refused(index_of({zeros("w", "F8_E4M3", {600}), zeros("w_scale_inv", "F32", {1, 1})}),
                 StatusCode::kFormat, {"[600]"});
}

TEST_CASE("container formats are recognised by byte counts") {
  CHECK(format_of(container(600, 6), 6, 100) == "int8-row");
  CHECK(format_of(container(300, 6), 6, 100) == "int4-row");
  CHECK(format_of(container(300, 12), 6, 100) == "int4-grouped");
  CHECK(format_of(container(200 * 300, 2 * 3), 200, 300) == "fp8-e4m3-b128");
  CHECK(format_of(container(5 * 26, 5), 5, 51) == "int4-row");  // an odd column is padded per row
}

TEST_CASE("bytes may be U8 or I8, flat or one row per matrix row, scales likewise") {
  for (const char *type : {"U8", "I8"}) {
    CHECK(format_of(index_of({zeros("w", type, {6, 50}), zeros("w.qs", "F32", {6, 2})}), 6, 100) ==
          "int4-grouped");
    CHECK(format_of(index_of({zeros("w", type, {6, 100}), zeros("w.qs", "F32", {6, 1})}), 6, 100) ==
          "int8-row");
    CHECK(format_of(index_of({zeros("w", type, {6, 100}), zeros("w.qs", "F32", {6})}), 6, 100) ==
          "int8-row");
  }
  expect_refused(index_of({zeros("w", "U8", {50, 6}), zeros("w.qs", "F32", {6})}),
                 StatusCode::kFormat, {"[50, 6]"});
  expect_refused(index_of({zeros("w", "U8", {300}), zeros("w.qs", "F32", {2, 6})}),
                 StatusCode::kFormat, {"[2, 6]"});
}

TEST_CASE("the group width is the smallest of the known ones that fits the scale count [C-19]") {
  const auto group_of = [](uint64_t columns, uint64_t groups) {
    return find_matrix(container(2 * ((columns + 1) / 2), 2 * groups), "w", 2, columns).group;
  };
  CHECK(group_of(6144, 96) == 64);
  CHECK(group_of(6144, 48) == 128);
  CHECK(group_of(6144, 384) == 16);
  CHECK(group_of(6144, 24) == 256);
  CHECK(group_of(100, 2) == 64);
  CHECK(group_of(96, 2) == 48);
  CHECK(group_of(65, 5) == 16);
  CHECK(group_of(2048, 11) == 192);
}

TEST_CASE("byte counts that fit no layout are refused with both counts [L-08]") {
  expect_refused(container(301, 6), StatusCode::kFormat, {"301 bytes", "6 scales", "[6, 100]"});
  expect_refused(container(300, 7), StatusCode::kFormat, {"300 bytes", "7 scales"});
  expect_refused(container(600, 12), StatusCode::kFormat, {"600 bytes", "12 scales"});
  expect_refused(container(300, 0), StatusCode::kFormat, {"0 scales"});
  expect_refused(container(1, 6), StatusCode::kFormat, {"1 bytes"});
}

TEST_CASE("known container formats that are not read are refused by name") {
  expect_refused(container(6 * 25, 6), StatusCode::kUnsupported, {"int2-row"});
  expect_refused(container(6 * 48, 12), StatusCode::kUnsupported, {"int3-g64"});
  expect_refused(container(6 * 98, 1), StatusCode::kUnsupported, {"e8-iq3-lattice"});
}

TEST_CASE("bytes without scales, or scales of another type, are refused") {
  expect_refused(index_of({zeros("w", "U8", {600})}), StatusCode::kIncomplete, {"w.qs"});
  expect_refused(index_of({zeros("w", "U8", {600}), zeros("w.qs", "F16", {6})}),
                 StatusCode::kUnsupported, {"F16"});
  expect_refused(index_of({zeros("w", "F8_E4M3", {6, 100}), zeros("w.qs", "F32", {6})}),
                 StatusCode::kFormat, {"F8_E4M3"});
}

TEST_CASE("equal counts of int8-row and fp8 mean int8-row unless a stamp says otherwise") {
  // 300 rows have 3 block rows; 100 block columns make 300 scales, as many as rows.
  const uint64_t rows = 300, columns = 12800;
  CHECK(format_of(container(rows * columns, rows), rows, columns) == "int8-row");
  CHECK(format_of(container(rows * columns, rows, stamp("int8-row")), rows, columns) == "int8-row");
  CHECK(format_of(container(rows * columns, rows, stamp("fp8-e4m3-b128")), rows, columns) ==
        "fp8-e4m3-b128");
}

TEST_CASE("a stamp that the counts contradict is refused") {
  expect_refused(container(600, 6, stamp("int4-row")), StatusCode::kFormat,
                 {"'int4-row'", "600 bytes"});
  expect_refused(container(600, 6, stamp("novel-format")), StatusCode::kFormat, {"'novel-format'"});
}

TEST_CASE("stamps are not consulted for routed experts") {
  const std::string name = "model.layers.1.mlp.experts.0.up_proj.weight";
  const std::string metadata = R"({"colibri.fmt":"{\")" + name + R"(\":\"int4-row\"}"})";
  const TensorIndex index =
      index_of({zeros(name + ".qs", "F32", {6}), zeros(name, "U8", {600})}, metadata);
  CHECK(find_matrix(index, name, 6, 100).format == StoredFormat::kInt8Row);
}

TEST_CASE("sizes of values and scales are counted together") {
  const WeightSource source = find_matrix(container(300, 12), "w", 6, 100);
  CHECK(source.stored_bytes() == 300 + 48);
  CHECK(source.values.bytes == 300);
  CHECK(source.scales.bytes == 48);
  CHECK(source.is_present());
  CHECK_FALSE(WeightSource().is_present());
}

TEST_CASE("the absent part of a tensor is the tensor or its scales") {
  CHECK(find_absent_part(container(600, 6), "w").empty());
  CHECK(find_absent_part(container(600, 6), "v") == "v");
  CHECK(find_absent_part(index_of({zeros("w", "U8", {6})}), "w") == "w.qs");
}

TEST_CASE("a packed matrix is recognised by the manifest, and plain ones beside it as ever") {
  PackedShard shard;
  shard.add_matrix("w", make_packed_matrix(WeightFormat::kInt4, 6, 100, 32, ScaleType::kBF16));
  shard.add_plain("p", "BF16", {6, 100}, std::string(1200, 'x'));
  shard.add_plain("c", "U8", {600}, std::string(600, 'x'));
  shard.add_plain("c.qs", "F32", {6}, std::string(24, 'x'));
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("shard.safetensors", shard.file()));
  const TensorIndex index = TensorIndex::from_readers(std::move(readers));
  const WeightSource packed = find_matrix(index, "w", 6, 100);
  CHECK(packed.format == StoredFormat::kPacked);
  CHECK(describe_format(packed) == "int4-packed");
  CHECK(scale_rows(packed) == 0);
  CHECK(scale_columns(packed) == 0);
  CHECK(describe_format(find_matrix(index, "p", 6, 100)) == "bf16");
  CHECK(describe_format(find_matrix(index, "c", 6, 100)) == "int8-row");
  CHECK(find_absent_part(index, "w").empty());
  expect_refused(index, StatusCode::kFormat, {"[6, 100]", "[6, 99]"}, 99);
  expect_failure(StatusCode::kUnsupported, {"w", "U8"},
                 [&] { find_plain_matrix(index, "w", 6, 100); });
}

}  // namespace colibri::test

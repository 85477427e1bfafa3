// SPDX-License-Identifier: Apache-2.0
//
// The manifest of a packed snapshot: what is written is read again, and every lie is refused by
// name.

#include "lib/snapshot/packed_manifest.h"

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

WeightLayout matrix(WeightFormat format, uint32_t columns, uint32_t depth, uint32_t group = 0) {
  WeightLayout layout;
  layout.format = format;
  layout.columns = columns;
  layout.depth = depth;
  layout.group = group;
  return layout;
}

PackedManifest full_manifest() {
  PackedManifest manifest;
  manifest.source_identity = 0x00ab'cdef'0123'4567;
  manifest.model_type = "glm_moe_dsa";
  manifest.options = {"int4", "int8", "keep", "bf16", 64, "search"};
  manifest.counts = {{"int4", {6, 1234}}, {"int8", {2, UINT64_MAX}}};
  manifest.files = {{"config.json", 1}, {"tokenizer.json", UINT64_MAX}};
  WeightLayout int4 = matrix(WeightFormat::kInt4, 96, 256, 64);
  int4.scale_type = ScaleType::kBF16;
  WeightLayout down = int4;
  std::swap(down.columns, down.depth);
  WeightLayout row_scaled = matrix(WeightFormat::kInt8, 20, 33, kRowScaleActivationGroup);
  row_scaled.has_row_scale = true;
  manifest.layouts = {
      {PackedForm::kExpert, 1, {int4, int4, down}},
      {PackedForm::kMatrix, 1, {row_scaled}},
      {PackedForm::kMatrix, 1, {matrix(WeightFormat::kFp8, 300, 128, 128)}},
      {PackedForm::kMatrix, 1, {matrix(WeightFormat::kF16, 3, 5)}},
      {PackedForm::kHeads,
       7,
       {matrix(WeightFormat::kInt8, 512, 192, 64), matrix(WeightFormat::kInt8, 128, 512, 64)}}};
  manifest.tensors = {
      {"z.expert", 0, 0xffff'0000'ffff'0000}, {"a.matrix", 1, 5}, {"norm \"q\"", -1, 0}};
  return manifest;
}

void expect_equal(const PackedManifest &got, const PackedManifest &wanted) {
  CHECK(got.source_identity == wanted.source_identity);
  CHECK(got.model_type == wanted.model_type);
  CHECK(got.options == wanted.options);
  CHECK(got.counts == wanted.counts);
  CHECK(got.files == wanted.files);
  CHECK(got.layouts == wanted.layouts);
  REQUIRE(got.tensors.size() == wanted.tensors.size());
  for (size_t i = 0; i < got.tensors.size(); ++i) {
    CHECK(got.tensors[i].name == wanted.tensors[i].name);
    CHECK(got.tensors[i].layout == wanted.tensors[i].layout);
    CHECK(got.tensors[i].checksum == wanted.tensors[i].checksum);
  }
}

const std::string kPart = R"({"format":"int4","columns":32,"depth":64,"group":32,"scales":"bf16"})";

std::string matrix_layout(const std::string &part) {
  return R"({"form":"matrix","parts":[)" + part + "]}";
}

// A manifest with these layouts, and one tensor that has layout 0.
std::string with_layouts(const std::string &layouts) {
  return R"({"version":1,"source":{"identity":"0000000000000001","model_type":"m"},)"
         R"("options":{"experts":"int4","dense":"int8","embedding":"keep","head":"keep",)"
         R"("group":64,"scales":"search"},"counts":{},"files":{},"layouts":[)" +
         layouts + R"(],"tensors":{"t":[0,"0123456789abcdef"]}})";
}

// A sound manifest in which the first `from` is replaced.
std::string replaced(const std::string &from, const std::string &to) {
  std::string text = with_layouts(matrix_layout(kPart));
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string &json, std::initializer_list<std::string_view> parts) {
  expect_failure(StatusCode::kFormat, {"shard-1", "colibri.packed"},
                 [&] { parse_packed_manifest(json, "shard-1"); });
  expect_failure(StatusCode::kFormat, parts, [&] { parse_packed_manifest(json, "shard-1"); });
}

void expect_layout_refused(const std::string &layout,
                           std::initializer_list<std::string_view> parts) {
  expect_refused(with_layouts(layout), parts);
}

std::string part_text(uint64_t columns, uint64_t depth) {
  return R"({"format":"f32","columns":)" + std::to_string(columns) + R"(,"depth":)" +
         std::to_string(depth) + "}";
}

}  // namespace

TEST_CASE("a manifest is read as it was written") {
  const PackedManifest manifest = full_manifest();
  expect_equal(parse_packed_manifest(write_packed_manifest(manifest), "shard"), manifest);
}

TEST_CASE("the length of a manifest does not depend on its checksums") {
  PackedManifest manifest = full_manifest();
  const size_t length = write_packed_manifest(manifest).size();
  for (PackedTensor &tensor : manifest.tensors) tensor.checksum ^= 0xf0f0'1234'5678'9abc;
  for (auto &file : manifest.files) file.second = 0;
  manifest.source_identity = UINT64_MAX;
  CHECK(write_packed_manifest(manifest).size() == length);
}

TEST_CASE("parts stand one after another and a tensor ends at a multiple of 4096") {
  const PackedManifest manifest = full_manifest();
  const PackedLayout &expert = manifest.layouts[0];
  const uint64_t part = expert.parts[0].total_bytes();
  CHECK(part == 96 * 256 / 2 + 96 * 4 * 2);
  CHECK(expert.part_offset(2) == 2 * part);
  CHECK(expert.head_bytes() == 2 * part + 96 * 256 / 2 + 256 * 2 * 2);
  CHECK(expert.tensor_bytes() == 40960);
  const PackedLayout &heads = manifest.layouts[4];
  CHECK(heads.tensor_bytes() >= 7 * heads.head_bytes());
  CHECK(heads.tensor_bytes() < 7 * heads.head_bytes() + 4096);
  CHECK(heads.tensor_bytes() % 4096 == 0);
}

TEST_CASE("another version is unsupported and named") {
  expect_failure(StatusCode::kUnsupported, {"shard-1", "version 2"}, [] {
    parse_packed_manifest(R"({"version":2,"layouts":"of the future"})", "shard-1");
  });
}

TEST_CASE("members that are not known are ignored") {
  const std::string json = replaced(R"("version":1)", R"("version":1,"comment":["x",{}])");
  CHECK(parse_packed_manifest(json, "shard").tensors.size() == 1);
}

TEST_CASE("manifests without a needed member, or with one of another kind, are refused") {
  expect_refused("[]", {"the manifest", "object"});
  expect_refused("{", {"shard-1"});
  expect_refused(replaced(R"("version":1)", R"("version":"1")"), {"version"});
  for (const char *key : {"source", "options", "counts", "files", "layouts", "tensors"}) {
    const std::string quoted = "\"" + std::string(key) + "\"";
    expect_refused(replaced(quoted, "\"other\""), {key});
    expect_refused(replaced(quoted + ":", quoted + ":7,\"other\":"), {key});
  }
  for (const char *key : {"model_type", "experts", "dense", "embedding", "head", "group"}) {
    expect_refused(replaced("\"" + std::string(key) + "\"", "\"other\""), {key});
  }
}

TEST_CASE("checksums are 16 lower-case hexadecimal digits") {
  for (const char *text : {"\"0123456789abcde\"", "\"0123456789abcdef0\"", "\"0123456789ABCDEF\"",
                           "\"-123456789abcdef\"", "\"0x23456789abcdef\"", "81985529216486895"}) {
    expect_refused(replaced("\"0123456789abcdef\"", text), {"tensor t", "checksum"});
  }
  expect_refused(replaced("\"0000000000000001\"", "\"\""), {"source", "identity"});
}

TEST_CASE("side files are plain names of the folder") {
  for (const char *name : {"", ".", "..", "../config.json", "/etc/passwd", "a\\\\b", "a\\u0000"}) {
    const std::string entry = "\"files\":{\"" + std::string(name) + "\":\"0000000000000000\"";
    expect_refused(replaced("\"files\":{", entry), {"plain name"});
  }
  const std::string long_name(256, 'x');
  expect_refused(replaced("\"files\":{", "\"files\":{\"" + long_name + "\":\"0000000000000000\""),
                 {"plain name"});
}

TEST_CASE("counts are of known formats") {
  expect_refused(replaced("\"counts\":{", R"("counts":{"int3":{"tensors":1,"bytes":1})"), {"int3"});
  expect_refused(replaced("\"counts\":{", R"("counts":{"int4":{"tensors":-1,"bytes":1})"),
                 {"int4", "tensors"});
  expect_refused(replaced("\"counts\":{", R"("counts":{"int4":{"tensors":1})"), {"bytes"});
}

TEST_CASE("a layout index must lead to a layout") {
  for (const char *index : {"1", "-2", "4294967296", "0.5", "\"0\"", "null"}) {
    expect_refused(replaced("\"t\":[0,", "\"t\":[" + std::string(index) + ","), {"tensor t"});
  }
  expect_refused(replaced("[0,\"0123456789abcdef\"]", "\"0123456789abcdef\""), {"tensor t"});
  expect_refused(replaced("[0,\"0123456789abcdef\"]", "[0,\"0123456789abcdef\",1]"), {"tensor t"});
}

TEST_CASE("forms and formats are known ones with the right number of parts") {
  expect_layout_refused(R"({"form":"tensor","parts":[]})", {"layout 0", "'tensor'"});
  expect_layout_refused(R"({"form":"matrix","parts":[]})", {"1 parts"});
  expect_layout_refused(R"({"form":"expert","parts":[)" + kPart + "]}", {"3 parts"});
  expect_layout_refused(R"({"form":"heads","heads":1,"parts":[)" + kPart + "]}", {"2 parts"});
  expect_layout_refused(R"({"form":"matrix","parts":{"a":1}})", {"1 parts"});
  expect_layout_refused(matrix_layout(R"({"format":"int3","columns":1,"depth":1})"), {"'int3'"});
  expect_layout_refused(matrix_layout("5"), {"format"});
}

TEST_CASE("groups and scales are those of the packed form") {
  const auto part = [](const std::string &format, const std::string &rest) {
    return matrix_layout(R"({"format":")" + format + R"(","columns":32,"depth":64)" + rest + "}");
  };
  for (const char *group : {"8", "24", "272", "-16", "\"64\""}) {
    const std::string rest = std::string(",\"scales\":\"f32\",\"group\":") + group;
    expect_layout_refused(part("int4", rest), {"layout 0", "group"});
    expect_layout_refused(part("int8", rest), {"layout 0", "group"});
  }
  expect_layout_refused(part("int4", R"(,"group":64)"), {"scales"});
  expect_layout_refused(part("int4", R"(,"group":64,"scales":"f16")"), {"scales 'f16'"});
  expect_layout_refused(part("fp8", R"(,"group":64,"scales":"f32")"), {"group 64"});
  expect_layout_refused(part("fp8", R"(,"group":0,"scales":"f32")"), {"group 0"});
  expect_layout_refused(part("fp8", R"(,"group":128,"scales":"bf16")"), {"bf16"});
  for (const uint32_t group : {16u, 48u, 256u}) {
    const std::string rest = R"(,"scales":"bf16","group":)" + std::to_string(group);
    const PackedManifest manifest = parse_packed_manifest(with_layouts(part("int8", rest)), "s");
    CHECK(manifest.layouts[0].parts[0].group == group);
    CHECK_FALSE(manifest.layouts[0].parts[0].has_row_scale);
  }
}

TEST_CASE("sizes are positive, bounded and do not overflow") {
  for (const uint64_t extent : {uint64_t{0}, uint64_t{1} << 31, UINT64_MAX}) {
    expect_layout_refused(matrix_layout(part_text(extent, 4)), {"columns"});
    expect_layout_refused(matrix_layout(part_text(4, extent)), {"depth"});
  }
  expect_layout_refused(matrix_layout(part_text(INT32_MAX, INT32_MAX)), {"overflow"});
  const std::string wide = part_text(1 << 22, 1 << 22);
  const auto heads = [&](const char *n_heads) {
    return R"({"form":"heads","heads":)" + std::string(n_heads) + R"(,"parts":[)" + wide + "," +
           wide + "]}";
  };
  CHECK(parse_packed_manifest(with_layouts(heads("4")), "s").layouts[0].tensor_bytes() ==
        1ull << 49);
  expect_layout_refused(heads("65536"), {"overflow"});
  expect_layout_refused(heads("65537"), {"heads 65537"});
  expect_layout_refused(heads("0"), {"heads 0"});
}

TEST_CASE("the parts of an expert and of heads fit each other") {
  const auto expert = [](const std::string &gate, const std::string &up, const std::string &down) {
    return R"({"form":"expert","parts":[)" + gate + "," + up + "," + down + "]}";
  };
  const std::string narrow = part_text(8, 24);
  const std::string back = part_text(24, 8);
  CHECK(parse_packed_manifest(with_layouts(expert(narrow, narrow, back)), "s").layouts.size() == 1);
  expect_layout_refused(expert(narrow, narrow, narrow), {"fit each other"});
  expect_layout_refused(expert(narrow, back, back), {"fit each other"});
  expect_layout_refused(R"({"form":"heads","heads":2,"parts":[)" + narrow + "," + narrow + "]}",
                        {"fit each other"});
}

TEST_CASE("a part of MXFP4 has groups of 32 and exponents, and nothing else") {
  const std::string part =
      R"({"format":"mxfp4","columns":32,"depth":64,"group":32,"scales":"e8m0"})";
  const PackedManifest manifest =
      parse_packed_manifest(with_layouts(matrix_layout(part)), "shard-1");
  const WeightLayout &layout = manifest.layouts[0].parts[0];
  CHECK(layout.format == WeightFormat::kMxFp4);
  CHECK(layout.group == kMxFp4Group);
  CHECK(layout.scale_type == ScaleType::kE8M0);
  CHECK_FALSE(layout.has_row_scale);
  const PackedManifest again = parse_packed_manifest(write_packed_manifest(manifest), "shard-1");
  CHECK(again.layouts[0].parts[0] == layout);
  for (const auto &[from, to] :
       {std::pair<std::string, std::string>{"\"group\":32", "\"group\":64"},
        {"\"group\":32", "\"group\":0"},
        {"e8m0", "f32"},
        {"e8m0", "bf16"}}) {
    std::string wrong = part;
    wrong.replace(wrong.find(from), from.size(), to);
    expect_layout_refused(matrix_layout(wrong), {"mxfp4", "e8m0"});
  }
  expect_refused(replaced("bf16", "e8m0"), {"unknown scales"});
}

TEST_CASE("an expert has three parts, or six with its biases") {
  const auto expert = [](const std::string &biases) {
    return R"({"form":"expert","parts":[)" + part_text(32, 64) + "," + part_text(32, 64) + "," +
           part_text(64, 32) + biases + "]}";
  };
  const std::string narrow = "," + part_text(32, 1), wide = "," + part_text(64, 1);
  const PackedManifest manifest =
      parse_packed_manifest(with_layouts(expert(narrow + narrow + wide)), "shard-1");
  CHECK(manifest.layouts[0].parts.size() == 6);
  const PackedManifest again = parse_packed_manifest(write_packed_manifest(manifest), "shard-1");
  CHECK(again.layouts[0].parts == manifest.layouts[0].parts);
  expect_layout_refused(expert(narrow), {"parts"});
  expect_layout_refused(expert(narrow + narrow), {"parts"});
  expect_layout_refused(expert(narrow + narrow + narrow), {"do not fit"});
  expect_layout_refused(expert(narrow + narrow + "," + part_text(64, 2)), {"do not fit"});
}

}  // namespace colibri::test

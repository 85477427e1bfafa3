// SPDX-License-Identifier: Apache-2.0
//
// One safetensors file: what is read, and every way in which a header may lie.

#include "lib/snapshot/safetensors.h"

#include <cstdio>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

SafetensorsHeader read(std::string_view file) {
  return read_safetensors_header(*memory_reader("/folder/shard.safetensors", file));
}

void expect_refused(std::string_view file, std::initializer_list<std::string_view> parts) {
  expect_failure(StatusCode::kFormat, {"shard.safetensors"}, [&] { read(file); });
  expect_failure(StatusCode::kFormat, parts, [&] { read(file); });
}

// A header with one tensor "t" of the given fields over 16 data bytes.
std::string one_tensor(const std::string &fields) {
  return raw_file("{\"t\":{" + fields + "}}", std::string(16, 'x'));
}

// The header entry of a U8 tensor over bytes begin..end.
std::string span_entry(const char *name, uint64_t begin, uint64_t end) {
  char text[120];
  std::snprintf(text, sizeof text, R"("%s":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]})",
                name, static_cast<int>(end - begin), static_cast<int>(begin),
                static_cast<int>(end));
  return text;
}

struct Span {
  uint64_t begin, end;
};

// A header with tensors a and b of U8 over `n_bytes` data bytes.
std::string two_spans(Span a, Span b, size_t n_bytes) {
  std::string header = "{";
  header += span_entry("a", a.begin, a.end) + "," + span_entry("b", b.begin, b.end) + "}";
  return raw_file(header, std::string(n_bytes, 'x'));
}

}  // namespace

TEST_CASE("reads names, types, shapes and places in the order of the file") {
  const std::string file =
      safetensors_file({zeros("w", "BF16", {2, 3}), zeros("s", "F32", {}), zeros("b", "U8", {5}),
                        zeros("f", "F8_E4M3", {2, 2}), zeros("i", "I64", {1})},
                       R"({"format":"pt","tool":"x"})");
  const SafetensorsHeader header = read(file);
  REQUIRE(header.tensors.size() == 5);
  CHECK(header.tensors[0].name == "w");
  CHECK(header.tensors[0].type == TensorType::kBF16);
  CHECK(header.tensors[0].shape == std::vector<uint64_t>{2, 3});
  CHECK(header.tensors[0].bytes == 12);
  CHECK(header.tensors[1].shape.empty());
  CHECK(header.tensors[1].offset == header.tensors[0].offset + 12);
  CHECK(header.tensors[3].type == TensorType::kF8E4M3);
  CHECK(header.tensors[4].offset + 8 == file.size());
  CHECK(header.metadata.size() == 2);
}

TEST_CASE("type names and sizes agree") {
  CHECK(std::string(tensor_type_name(TensorType::kBF16)) == "BF16");
  CHECK(std::string(tensor_type_name(TensorType::kOther)) == "other");
  CHECK(tensor_type_bytes(TensorType::kF32) == 4);
  CHECK(tensor_type_bytes(TensorType::kF8E8M0) == 1);
  CHECK(tensor_type_bytes(TensorType::kOther) == 0);
}

TEST_CASE("a type that is never needed is kept by name and its span is checked") {
  const SafetensorsHeader header =
      read(one_tensor(R"("dtype":"F4","shape":[32],"data_offsets":[0,16])"));
  CHECK(header.tensors[0].type == TensorType::kOther);
  CHECK(header.tensors[0].type_name == "F4");
  expect_refused(one_tensor(R"("dtype":"F4","shape":[32],"data_offsets":[0,17])"),
                 {"tensor t", "17"});
  expect_refused(one_tensor(R"("dtype":"I32","shape":[3],"data_offsets":[0,16])"), {"12", "16"});
}

TEST_CASE("any bytes as a file end in an error code [L-06]") {
  for (const std::string &bytes :
       {std::string(), std::string("x"), std::string(7, '\0'), std::string(8, '\0'),
        std::string(100, '\xFF'), std::string(100, '\0'), std::string("random words")}) {
    INFO("bytes: " << bytes.size());
    expect_refused(bytes, {"shard.safetensors"});
  }
  expect_refused("<!DOCTYPE html><html>not found</html>", {"HTML"});
}

TEST_CASE("foreign containers are named in the error [L-30]") {
  const std::string tail(100, '\x11');
  expect_refused("GGUF" + tail, {"GGUF"});
  expect_refused("PK\x03\x04" + tail, {"ZIP"});
  expect_refused(std::string("\x80\x02}q\x01") + tail, {"pickle"});
  expect_refused("\x89HDF\r\n\x1a\n" + tail, {"HDF5"});
  expect_refused("\n\n <HTML>" + tail, {"HTML"});
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:12\n", {"Git LFS"});
  expect_refused("GGUF", {"GGUF"});
}

TEST_CASE("a sound file whose length bytes look like a pickle is read") {
  // 640 is 0x0280: the file begins with the bytes of a pickle of protocol 2.
  std::string header = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  header.resize(640, ' ');
  CHECK(read(raw_file(header, "x")).tensors.size() == 1);
}

TEST_CASE("sniffing answers for every input and never throws [L-07]") {
  const auto looks = [](std::string_view bytes) {
    return looks_like_safetensors(*memory_reader("f", bytes));
  };
  CHECK(looks(safetensors_file({zeros("w", "F32", {1})})));
  CHECK(looks(raw_file("{}")));
  CHECK_FALSE(looks(""));
  CHECK_FALSE(looks("1234567"));
  CHECK_FALSE(looks(raw_file("notjson!")));  // 16 bytes with a plausible length
  CHECK_FALSE(looks(raw_file("{notjson")));
  CHECK_FALSE(looks(std::string(64, '\xFF')));
  CHECK_FALSE(looks("GGUF" + std::string(64, '\0')));
}

TEST_CASE("the header length is bounded by the file and by 100 MB [X-15]") {
  std::string file = raw_file("{}");
  file[0] = 3;
  expect_refused(file, {"header length 3", "10 bytes"});
  file[0] = '\xFF';
  file[7] = '\xFF';
  expect_refused(file, {"header length"});
  file = raw_file("{}");
  file[0] = 0;
  expect_refused(file, {"header length 0"});
  std::string large(8, '\0');
  const uint64_t length = kMaxHeaderBytes + 1;
  for (size_t i = 0; i < 8; ++i) large[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  expect_refused(large + "{}", {"100000001"});
}

TEST_CASE("headers around the sizes of pages and buffers load identically [L-12]") {
  for (const size_t size : {4095u, 4096u, 4097u, 65535u, 65536u, 65537u, 100000u, 1048576u}) {
    std::string header = R"({"t":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
    header.resize(size, ' ');
    const SafetensorsHeader read_header = read(raw_file(header, "abc"));
    REQUIRE(read_header.tensors.size() == 1);
    CHECK(read_header.tensors[0].offset == 8 + size);
    CHECK(read_header.tensors[0].bytes == 3);
  }
}

TEST_CASE("metadata may be absent, empty, text, or of another kind inside [L-11]") {
  const std::vector<TestTensor> tensors = {zeros("w", "F32", {1})};
  CHECK(read(safetensors_file(tensors)).metadata.empty());
  CHECK(read(safetensors_file(tensors, "{}")).metadata.empty());
  CHECK(read(safetensors_file(tensors, R"({"a":"b"})")).metadata.size() == 1);
  CHECK(read(safetensors_file(tensors, R"({"a":1,"b":{"c":[]},"d":"e"})")).metadata.size() == 1);
  expect_refused(safetensors_file(tensors, "[]"), {"__metadata__"});
}

TEST_CASE("a file without tensors is valid [L-13]") {
  CHECK(read(raw_file("{}")).tensors.empty());
  CHECK(read(raw_file(R"({"__metadata__":{"a":"b"}})")).tensors.empty());
}

TEST_CASE("a file cut by one byte or longer by one byte is refused [L-03]") {
  const std::string file = safetensors_file({zeros("w", "F32", {4}), zeros("v", "F32", {4})});
  CHECK(read(file).tensors.size() == 2);
  expect_refused(file.substr(0, file.size() - 1), {"tensor v", "32", "31"});
  expect_refused(file + "x", {"1 bytes follow the last tensor"});
}

TEST_CASE("overlaps and holes between tensors are refused [X-15]") {
  CHECK(read(two_spans({0, 8}, {8, 16}, 16)).tensors.size() == 2);
  CHECK(read(two_spans({8, 16}, {0, 8}, 16)).tensors[0].name == "b");
  expect_refused(two_spans({0, 8}, {4, 12}, 12), {"tensor b", "overlaps"});
  expect_refused(two_spans({0, 8}, {0, 8}, 8), {"overlaps"});
  expect_refused(two_spans({0, 8}, {9, 16}, 16), {"tensor b", "hole"});
  expect_refused(two_spans({1, 8}, {8, 16}, 16), {"tensor a", "hole"});
}

TEST_CASE("empty tensors may sit anywhere inside the data") {
  CHECK(read(two_spans({0, 0}, {0, 8}, 8)).tensors.size() == 2);
  CHECK(read(two_spans({4, 4}, {0, 8}, 8)).tensors.size() == 2);
  CHECK(read(two_spans({8, 8}, {0, 8}, 8)).tensors.size() == 2);
  expect_refused(two_spans({9, 9}, {0, 8}, 8), {"tensor a"});
}

TEST_CASE("offsets are whole, ascending and inside the file [X-14]") {
  for (const char *offsets :
       {"[0,17]", "[16,0]", "[-1,16]", "[0,-1]", "[0]", "[0,8,16]", "[0.5,16]", "\"0,16\"", "null",
        "[\"0\",\"16\"]", "[0,18446744073709551615]", "[18446744073709551600,18446744073709551615]",
        "{}"}) {
    expect_refused(
        one_tensor(std::string(R"("dtype":"U8","shape":[16],"data_offsets":)") + offsets),
        {"tensor t", "data_offsets"});
  }
}

TEST_CASE("shapes are lists of whole numbers whose product is the span [X-06, X-15]") {
  const auto file = [](const std::string &type, const std::string &shape) {
    return one_tensor("\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":[0,16]");
  };
  CHECK(read(file("F32", "[2,2]")).tensors[0].bytes == 16);
  expect_refused(file("F32", "[2,3]"), {"tensor t", "F32", "24", "16"});
  expect_refused(file("U8", "[15]"), {"15", "16"});
  expect_refused(file("F32", "[-2,-2]"), {"shape"});
  expect_refused(file("F32", "[2.5]"), {"shape"});
  expect_refused(file("F32", "4"), {"shape"});
  expect_refused(file("F32", "[4294967296,4294967296,4]"), {"overflow"});
  expect_refused(file("F32", "[4611686018427387908]"), {"overflow"});
  expect_refused(file("F32", "[18446744073709551616]"), {"shape"});
}

TEST_CASE("dimension count and type are checked before use [X-08]") {
  CHECK(read(one_tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,16],"data_offsets":[0,16])"))
            .tensors.size() == 1);
  expect_refused(one_tensor(R"("dtype":"U8","shape":[1,1,1,1,1,1,1,1,16],"data_offsets":[0,16])"),
                 {"9 dimensions"});
  expect_refused(one_tensor(R"("dtype":7,"shape":[16],"data_offsets":[0,16])"), {"dtype"});
  expect_refused(one_tensor(R"("shape":[16],"data_offsets":[0,16])"), {"dtype"});
}

TEST_CASE("entries and headers of another kind are refused") {
  expect_refused(raw_file("[]"), {"'{'"});
  expect_refused(raw_file("{\"t\":1}"), {"tensor t"});
  expect_refused(raw_file("{\"t\":"), {"byte"});
  expect_refused(raw_file("{} x"), {"byte"});
}

TEST_CASE("the same name twice in one header is reported as a duplicate [L-10]") {
  const std::string entry = R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  expect_refused(raw_file("{" + entry + "," + entry + "}", "x"), {"\"t\"", "twice"});
  expect_refused(
      raw_file(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
      {"\"dtype\"", "twice"});
}

TEST_CASE("the header hash follows the header's bytes") {
  const std::string file = safetensors_file({zeros("w", "F32", {4})});
  std::string other = file;
  other[12] ^= 1;
  std::string other_data = file;
  other_data.back() = 'x';
  CHECK(read(file).header_hash == read(other_data).header_hash);
  CHECK(read(safetensors_file({zeros("v", "F32", {4})})).header_hash != read(file).header_hash);
}

}  // namespace colibri::test

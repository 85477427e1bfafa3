// SPDX-License-Identifier: Apache-2.0
//
// The table of all tensors of a folder.

#include "lib/snapshot/tensor_index.h"

#include <chrono>
#include <iostream>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TensorIndex index_of(const std::vector<std::pair<std::string, std::string>> &files) {
  std::vector<std::unique_ptr<Reader>> readers;
  for (const auto &[name, bytes] : files) readers.push_back(memory_reader(name, bytes));
  return TensorIndex::from_readers(std::move(readers));
}

std::string stamp(const std::string &tensor, const std::string &format) {
  return R"({"colibri.fmt":"{\")" + tensor + R"(\":\")" + format + R"(\"}"})";
}

}  // namespace

TEST_CASE("finds a tensor in any shard and reads its bytes") {
  TestTensor second = zeros("second", "U8", {3});
  second.data = "abc";
  const TensorIndex index =
      index_of({{"a.safetensors", safetensors_file({zeros("first", "F32", {2})})},
                {"b.safetensors", safetensors_file({second})}});
  const TensorInfo *info = index.find("second");
  REQUIRE(info != nullptr);
  CHECK(index.file_of(*info) == "b.safetensors");
  std::string bytes(3, ' ');
  REQUIRE(index.read(*info, bytes.data()).is_ok());
  CHECK(bytes == "abc");
  CHECK(index.find("third") == nullptr);
  CHECK(index.names() == std::vector<std::string_view>{"first", "second"});
}

TEST_CASE("each shard is opened once and its header parsed once [L-28]") {
  const TempFolder folder;
  TinyModel().write_shards(folder, 5, true);
  const TensorIndex index = TensorIndex::open(folder.path());
  CHECK(index.files().size() == 5);
  CHECK(index.n_headers_parsed() == 5);
}

TEST_CASE("folder, index file, config and any shard open the same snapshot [L-31]") {
  const TempFolder folder;
  TinyModel().write_shards(folder, 3, true);
  const uint64_t identity = TensorIndex::open(folder.path()).identity_hash();
  for (const char *name :
       {"", "model.safetensors.index.json", "config.json", "model-00001-of-00003.safetensors",
        "model-00003-of-00003.safetensors"}) {
    CHECK(TensorIndex::open(folder.file(name)).identity_hash() == identity);
  }
  folder.remove("model.safetensors.index.json");
  CHECK(TensorIndex::open(folder.path()).identity_hash() == identity);
}

TEST_CASE("the same tensor in two shards names the tensor and both files [L-09]") {
  const std::string file = safetensors_file({zeros("twin", "F32", {2})});
  expect_failure(StatusCode::kFormat, {"twin", "a.safetensors", "b.safetensors"}, [&] {
    index_of({{"a.safetensors", file}, {"b.safetensors", file}});
  });
}

TEST_CASE(
    "an absent shard is an incomplete model with number, first tensor and what was found [L-01]") {
  const TempFolder folder;
  TinyModel().write_shards(folder, 3, true);
  folder.remove("model-00002-of-00003.safetensors");
  expect_failure(StatusCode::kIncomplete,
                 {"model-00002-of-00003", "first absent tensor: model.layers.1", "found 2 shards",
                  "model-00001-of-00003", "model-00003-of-00003"},
                 [&] { TensorIndex::open(folder.path()); });
  folder.remove("model.safetensors.index.json");
  expect_failure(StatusCode::kIncomplete, {"number 2", "found 2 shards"},
                 [&] { TensorIndex::open(folder.path()); });
}

TEST_CASE("a tensor must stand where the index file says") {
  const TempFolder folder;
  folder.write("a.safetensors", safetensors_file({zeros("t", "F32", {2})}));
  folder.write("b.safetensors", safetensors_file({zeros("u", "F32", {2})}));
  const auto write_index = [&](const std::string &shard_of_t) {
    folder.write(
        "model.safetensors.index.json",
        R"({"weight_map":{"t":")" + shard_of_t + R"(","u":"b.safetensors","a":"a.safetensors"}})");
  };
  write_index("b.safetensors");
  expect_failure(StatusCode::kFormat, {"tensor t", "b.safetensors", "a.safetensors"},
                 [&] { TensorIndex::open(folder.path()); });
  write_index("a.safetensors");
  expect_failure(StatusCode::kIncomplete, {"tensor a", "not there"},
                 [&] { TensorIndex::open(folder.path()); });
}

TEST_CASE("identity follows names, sizes and headers, not data [L-32]") {
  const std::string file = safetensors_file({zeros("t", "F32", {2})});
  std::string other_data = file;
  other_data.back() = 'x';
  const uint64_t identity = index_of({{"a.safetensors", file}}).identity_hash();
  CHECK(index_of({{"a.safetensors", file}}).identity_hash() == identity);
  CHECK(index_of({{"a.safetensors", other_data}}).identity_hash() == identity);
  CHECK(index_of({{"b.safetensors", file}}).identity_hash() != identity);
  CHECK(index_of({{"a.safetensors", safetensors_file({zeros("t", "F32", {3})})}}).identity_hash() !=
        identity);
  CHECK(index_of({{"a.safetensors", safetensors_file({zeros("u", "F32", {2})})}}).identity_hash() !=
        identity);
}

TEST_CASE("shards may carry different metadata") {
  const TensorIndex index =
      index_of({{"a.safetensors", safetensors_file({zeros("t", "F32", {1})}, R"({"k":"1"})")},
                {"b.safetensors", safetensors_file({zeros("u", "F32", {1})}, R"({"k":"2"})")}});
  CHECK(index.metadata().at("k") == "1");
}

TEST_CASE("format stamps of all shards are joined, and contradictions refused") {
  const auto shard = [](const std::string &tensor, const std::string &metadata) {
    return safetensors_file({zeros(tensor, "F32", {1})}, metadata);
  };
  const TensorIndex index = index_of({{"a.safetensors", shard("t", stamp("x", "int8-row"))},
                                      {"b.safetensors", shard("u", stamp("y", "fp8-e4m3-b128"))}});
  CHECK(index.stamped_format("x") == "int8-row");
  CHECK(index.stamped_format("y") == "fp8-e4m3-b128");
  CHECK(index.stamped_format("z").empty());
  expect_failure(StatusCode::kFormat, {"colibri.fmt", "x", "int8-row", "int4-row"}, [&] {
    index_of({{"a.safetensors", shard("t", stamp("x", "int8-row"))},
              {"b.safetensors", shard("u", stamp("x", "int4-row"))}});
  });
  for (const char *bad : {R"({"colibri.fmt":"no json"})", R"({"colibri.fmt":"[]"})",
                          R"({"colibri.fmt":"{\"x\":1}"})"}) {
    expect_failure(StatusCode::kFormat, {"colibri.fmt"}, [&] {
      index_of({{"a.safetensors", shard("t", bad)}});
    });
  }
}

TEST_CASE("120,000 tensors are indexed", "[.][time]") {
  std::string header = "{";
  for (int i = 0; i < 120000; ++i) {
    header += (i != 0 ? ",\"model.layers." : "\"model.layers.") + std::to_string(i / 1600) +
              ".mlp.experts." + std::to_string(i) +
              R"(.gate_proj.weight":{"dtype":"U8","shape":[2,1],"data_offsets":[)" +
              std::to_string(2 * i) + "," + std::to_string(2 * i + 2) + "]}";
  }
  const std::string file = raw_file(header + "}", std::string(240000, 'x'));
  const auto begin = std::chrono::steady_clock::now();
  const TensorIndex index = index_of({{"a.safetensors", file}});
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  CHECK(index.size() == 120000);
  std::cout << "header of " << header.size() << " bytes indexed in " << elapsed.count() << " ms\n";
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Manifests of packed shards: joined over shards, checked against the tensors they describe.

#include <random>

#include "lib/base/checksum.h"
#include "lib/snapshot/tensor_index.h"
#include "tests/snapshot/fixture.h"
#include "tests/snapshot/packed_shard.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TensorIndex index_of(const std::vector<std::string> &files) {
  std::vector<std::unique_ptr<Reader>> readers;
  for (const std::string &file : files) {
    readers.push_back(memory_reader("shard" + std::to_string(readers.size()), file));
  }
  return TensorIndex::from_readers(std::move(readers));
}

void expect_refused(const std::vector<std::string> &files,
                    std::initializer_list<std::string_view> parts) {
  expect_failure(StatusCode::kFormat, parts, [&] { index_of(files); });
}

const MadeMatrix &small_matrix() {
  static const MadeMatrix matrix =
      make_packed_matrix(WeightFormat::kInt4, 20, 40, 16, ScaleType::kBF16);
  return matrix;
}

// One packed matrix "m" and one plain vector "v".
PackedShard small_shard() {
  PackedShard shard;
  shard.add_matrix("m", small_matrix());
  shard.add_plain("v", "F32", {2}, float_bytes({1.0f, 2.0f}));
  return shard;
}

PackedShard other_shard() {
  PackedShard shard;
  shard.add_matrix("n", make_packed_matrix(WeightFormat::kInt8, 8, 8));
  return shard;
}

}  // namespace

TEST_CASE("a manifest says how a tensor is packed and what its checksum is") {
  const TensorIndex index = index_of({small_shard().file()});
  REQUIRE(index.is_packed());
  REQUIRE(index.packed_layout("m") != nullptr);
  CHECK(index.packed_layout("m")->form == PackedForm::kMatrix);
  CHECK(index.packed_layout("m")->parts[0] == small_matrix().layout);
  CHECK(index.packed_layout("v") == nullptr);
  CHECK(index.packed_layout("w") == nullptr);
  const TensorInfo *info = index.find("m");
  std::vector<uint8_t> bytes(info->bytes);
  REQUIRE(index.read(*info, bytes.data()).is_ok());
  CHECK(info->checksum == checksum(bytes));
  CHECK(index.find("v")->checksum.has_value());
  CHECK(index.find("w") == nullptr);
}

TEST_CASE("facts of the conversion are those of every shard, and no metadata text repeats them") {
  const TensorIndex index = index_of({small_shard().file(), other_shard().file()});
  REQUIRE(index.manifest() != nullptr);
  const PackedManifest expected = small_shard().manifest;
  CHECK(index.manifest()->source_identity == expected.source_identity);
  CHECK(index.manifest()->model_type == expected.model_type);
  CHECK(index.manifest()->options == expected.options);
  CHECK(index.manifest()->counts == expected.counts);
  CHECK(index.manifest()->files == expected.files);
  CHECK(index.manifest()->tensors.empty());
  CHECK(index.metadata().count(kPackedManifestKey) == 0);
  CHECK(index.metadata().at("format") == "pt");
}

TEST_CASE("each shard's layouts are its own, also when several shards are joined") {
  PackedShard third;
  third.add_plain("u", "U8", {kPackedAlignment}, std::string(kPackedAlignment, 'x'));
  third.add_matrix("late", make_packed_matrix(WeightFormat::kF32, 3, 3));
  const TensorIndex index = index_of({small_shard().file(), other_shard().file(), third.file()});
  CHECK(index.packed_layout("m")->parts[0].format == WeightFormat::kInt4);
  CHECK(index.packed_layout("n")->parts[0].format == WeightFormat::kInt8);
  CHECK(index.packed_layout("late")->parts[0].format == WeightFormat::kF32);
  CHECK(index.packed_layout("u") == nullptr);
}

TEST_CASE("without a manifest nothing is packed") {
  const TensorIndex index = index_of({safetensors_file({zeros("v", "F32", {2})})});
  CHECK_FALSE(index.is_packed());
  CHECK(index.manifest() == nullptr);
  CHECK(index.packed_layout("v") == nullptr);
  CHECK_FALSE(index.find("v")->checksum.has_value());
}

TEST_CASE("a packed tensor has the type U8") {
  PackedShard shard = small_shard();
  std::string file = shard.file();
  const size_t at = file.find("\"U8\"");
  REQUIRE(at != std::string::npos);
  file.replace(at, 4, "\"I8\"");
  expect_refused({test::seal_again(file)}, {"shard0", "tensor m", "matrix", "I8 instead of U8"});
}

TEST_CASE("a packed tensor has the bytes of its layout") {
  PackedShard shard = small_shard();
  shard.manifest.layouts[0].parts[0].columns = 200;
  const std::string needed = std::to_string(shard.manifest.layouts[0].tensor_bytes());
  expect_refused({shard.file()}, {"shard0", "tensor m", "4096 bytes", needed});
  // Bytes without the padding are too few.
  shard = PackedShard();
  shard.add_plain("m", "U8", {small_matrix().bytes.size()}, small_matrix().bytes);
  shard.manifest.layouts.push_back(layout_of(PackedForm::kMatrix, {small_matrix()}));
  shard.manifest.tensors[0].layout = 0;
  expect_refused({shard.file()}, {std::to_string(small_matrix().bytes.size()), "4096"});
}

TEST_CASE("a packed tensor begins at a multiple of 4096") {
  PackedShard shard;
  shard.add_plain("v", "U8", {64}, std::string(64, 'x'));
  shard.add_matrix("m", small_matrix());
  expect_refused({shard.file()}, {"shard0", "tensor m", "begins at byte 4160", "4096"});
}

TEST_CASE("a manifest lists exactly the tensors of its shard") {
  PackedShard shard = small_shard();
  shard.manifest.tensors.pop_back();
  expect_refused({shard.file()}, {"shard0", "tensor v", "absent from the manifest"});
  shard = small_shard();
  shard.manifest.tensors.push_back({"w", -1, 0});
  expect_refused({shard.file()}, {"shard0", "lists tensor w"});
  // A tensor of another shard is not one of this.
  PackedShard other = other_shard();
  other.manifest.tensors.push_back({"v", -1, 0});
  expect_refused({small_shard().file(), other.file()}, {"shard1", "lists tensor v"});
}

TEST_CASE("shards of two conversions are refused, and both are named") {
  const auto refuse = [](const char *difference, void (*bend)(PackedManifest *)) {
    PackedShard other = other_shard();
    bend(&other.manifest);
    expect_refused({small_shard().file(), other.file()}, {"shard0", "shard1", difference});
  };
  refuse("source", [](PackedManifest *manifest) { manifest->source_identity ^= 1; });
  refuse("source", [](PackedManifest *manifest) { manifest->model_type = "other"; });
  refuse("options", [](PackedManifest *manifest) { manifest->options.group = 128; });
  refuse("counts", [](PackedManifest *manifest) { manifest->counts["int8"] = {1, 1}; });
  refuse("side files", [](PackedManifest *manifest) { manifest->files[0].second ^= 1; });
}

TEST_CASE("shards with and without a manifest are refused together, in either order") {
  const std::string plain = safetensors_file({zeros("p", "F32", {2})});
  expect_refused({small_shard().file(), plain}, {"shard0 has a manifest", "shard1 has none"});
  expect_refused({plain, small_shard().file()}, {"shard1 has a manifest", "shard0 has none"});
}

TEST_CASE("a manifest of another version or that is no manifest is refused with its shard") {
  std::string text = write_packed_manifest(small_shard().manifest);
  expect_refused({small_shard().file_with(text.substr(1))}, {"shard0", kPackedManifestKey});
  text.replace(text.find("\"version\":1"), 11, "\"version\":2");
  expect_failure(StatusCode::kUnsupported, {"shard0", "version 2"},
                 [&] { index_of({small_shard().file_with(text)}); });
}

TEST_CASE("any damage to a manifest ends in a snapshot or in an error code") {
  const PackedShard shard = small_shard();
  const std::string text = write_packed_manifest(shard.manifest);
  std::mt19937 random(11);
  size_t n_refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (auto flips = 1 + random() % 3; flips > 0; --flips) {
      damaged[random() % damaged.size()] = "0123456789\"{}[],:-aeflnx"[random() % 24];
    }
    try {
      index_of({shard.file_with(damaged)});
    } catch (const Error &error) {
      ++n_refused;
      const StatusCode code = error.status().code();
      INFO(error.what());
      REQUIRE((code == StatusCode::kFormat || code == StatusCode::kUnsupported));
    }
  }
  CHECK(n_refused > 1000);
}

}  // namespace colibri::test

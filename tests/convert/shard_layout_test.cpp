// SPDX-License-Identifier: Apache-2.0
//
// How tensors are cut into shards, and their headers.

#include "lib/convert/shard_layout.h"

#include "lib/base/file.h"
#include "lib/snapshot/safetensors.h"
#include "lib/snapshot/snapshot_files.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

PackedWriterPlan plan_of_sizes(const std::vector<uint64_t> &n_floats, uint64_t max_shard_bytes) {
  PackedWriterPlan plan;
  for (size_t i = 0; i < n_floats.size(); ++i) {
    plan.tensors.push_back(plain_tensor("t" + std::to_string(i), "F32", {n_floats[i]}));
  }
  plan.max_shard_bytes = max_shard_bytes;
  return plan;
}

std::vector<size_t> counts_of(const PackedWriterPlan &plan) {
  std::vector<size_t> counts;
  for (const ShardPlan &shard : cut_into_shards(plan)) counts.push_back(shard.n_tensors);
  return counts;
}

// A file with the header of a shard and zeros for data, read as any other.
SafetensorsHeader read_back(const PackedWriterPlan &plan, const ShardPlan &shard,
                            const std::vector<uint64_t> &sums) {
  const std::string header = shard_header(plan, shard, sums, sums);
  std::vector<uint8_t> bytes(header.begin(), header.end());
  bytes.resize(shard.file_bytes);
  return read_safetensors_header(*make_memory_reader(shard.name, std::move(bytes)));
}

}  // namespace

TEST_CASE("a shard ends before the tensor that would make it too large") {
  CHECK(counts_of(plan_of_sizes({10, 10, 10, 10}, 80)) == std::vector<size_t>{2, 2});
  CHECK(counts_of(plan_of_sizes({10, 10, 10, 10}, 79)) == std::vector<size_t>{1, 1, 1, 1});
  CHECK(counts_of(plan_of_sizes({10, 10, 10, 10}, 0)) == std::vector<size_t>{4});
  CHECK(counts_of(plan_of_sizes({}, 0)) == std::vector<size_t>{0});
}

TEST_CASE("a tensor larger than the bound has a shard of its own") {
  CHECK(counts_of(plan_of_sizes({5, 100, 5, 5}, 40)) == std::vector<size_t>{1, 1, 2});
  CHECK(counts_of(plan_of_sizes({100}, 40)) == std::vector<size_t>{1});
}

TEST_CASE("there are never more shards than a snapshot may have") {
  const PackedWriterPlan plan = plan_of_sizes(std::vector<uint64_t>(3000, 10), 1);
  CHECK(counts_of(plan).size() <= kMaxShards);
  CHECK(counts_of(plan).size() > kMaxShards / 4);
}

TEST_CASE("shards are numbered from one and know their sizes") {
  PackedWriterPlan plan = plan_of_sizes({10, 20, 30}, 100);
  plan.files.emplace_back("config.json", std::vector<uint8_t>(7));
  const std::vector<ShardPlan> shards = cut_into_shards(plan);
  REQUIRE(shards.size() == 3);
  CHECK(shards[0].name == "model-00001-of-00003.safetensors");
  CHECK(shards[2].name == "model-00003-of-00003.safetensors");
  CHECK(shards[1].first_tensor == 1);
  CHECK(shards[1].data_begin == 4096);
  CHECK(shards[1].file_bytes == 4096 + 80);
  CHECK(sum_file_bytes(plan, shards) == 3 * 4096 + 40 + 80 + 120 + 7);
}

TEST_CASE("headers are valid safetensors whose packed tensors are aligned") {
  const PackedWriterPlan plan = make_plan("unused");
  std::vector<uint64_t> sums;
  for (size_t i = 0; i < plan.tensors.size(); ++i) sums.push_back(0xabcd'0000 + i);
  size_t n_seen = 0;
  for (const ShardPlan &shard : cut_into_shards(plan)) {
    CHECK(shard.data_begin % kPackedAlignment == 0);
    const SafetensorsHeader header = read_back(plan, shard, sums);
    REQUIRE(header.tensors.size() == shard.n_tensors);
    REQUIRE(header.seal == HeaderSeal::kIntact);
    REQUIRE(header.metadata.size() == 2);
    const PackedManifest manifest = parse_packed_manifest(header.metadata[1].second, shard.name);
    REQUIRE(manifest.tensors.size() == shard.n_tensors);
    for (size_t i = 0; i < shard.n_tensors; ++i) {
      const OutputTensor &wanted = plan.tensors[shard.first_tensor + i];
      const PackedTensor &entry = manifest.tensors[i];
      CHECK(entry.name == wanted.name);
      CHECK(entry.checksum == 0xabcd'0000 + shard.first_tensor + i);
      CHECK((entry.layout >= 0) == wanted.layout.has_value());
      if (!wanted.layout) continue;
      CHECK(manifest.layouts.at(static_cast<size_t>(entry.layout)) == *wanted.layout);
    }
    for (const TensorRecord &record : header.tensors) {
      if (record.type == TensorType::kU8) CHECK(record.offset % kPackedAlignment == 0);
    }
    n_seen += shard.n_tensors;
  }
  CHECK(n_seen == plan.tensors.size());
}

TEST_CASE("the length of a header does not depend on the checksums") {
  const PackedWriterPlan plan = make_plan("unused");
  const std::vector<uint64_t> large(plan.tensors.size(), UINT64_MAX);
  for (const ShardPlan &shard : cut_into_shards(plan)) {
    CHECK(shard_header(plan, shard, large, large).size() == shard.data_begin);
  }
}

TEST_CASE("counts are of matrices and their bytes, without padding") {
  const PackedWriterPlan plan = make_plan("unused");
  const auto counts = count_formats(plan.tensors);
  const uint64_t expert =
      2 * int4_layout(96, 160, 32).total_bytes() + int4_layout(160, 96, 32).total_bytes();
  const uint64_t heads =
      3 * (int8_layout(32, 24, 16).total_bytes() + int8_layout(20, 32, 16).total_bytes());
  CHECK(counts.size() == 4);
  CHECK(counts.at("int4") == FormatBytes{24, 8 * expert});
  CHECK(counts.at("int8") == FormatBytes{7, int8_layout(100, 77, 64).total_bytes() + heads});
  CHECK(counts.at("bf16") == FormatBytes{1, 61 * 160 * 2});
  CHECK(counts.at("f32") == FormatBytes{2, 640});
}

TEST_CASE("a list that is no snapshot is a defect and named") {
  PackedWriterPlan plan = make_plan("unused");
  plan.tensors[1].name = plan.tensors[0].name;
  expect_failure(StatusCode::kInternal, {"layers.1.experts.0", "twice"},
                 [&] { cut_into_shards(plan); });
  plan = make_plan("unused");
  std::swap(plan.tensors.front(), plan.tensors.back());
  expect_failure(StatusCode::kInternal, {"layers.1.experts.1", "behind a plain one"},
                 [&] { cut_into_shards(plan); });
  plan = make_plan("unused");
  plan.tensors[2].bytes += 4096;
  expect_failure(StatusCode::kInternal, {"layers.1.experts.2", "bytes of its layout"},
                 [&] { cut_into_shards(plan); });
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Where the matrices of packed tensors lie, and forms and shapes that their use does not allow.

#include "lib/snapshot/packed_source.h"

#include "tests/snapshot/fixture.h"
#include "tests/snapshot/packed_shard.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

TensorIndex index_of(const PackedShard &shard) {
  std::vector<std::unique_ptr<Reader>> readers;
  readers.push_back(memory_reader("shard.safetensors", shard.file()));
  return TensorIndex::from_readers(std::move(readers));
}

std::vector<float> read(const TensorIndex &index, const WeightSource &source) {
  std::vector<float> values(source.rows * source.columns);
  read_dequantised(index, source, values.data());
  return values;
}

MadeMatrix int4(uint32_t columns, uint32_t depth, uint32_t seed) {
  return make_packed_matrix(WeightFormat::kInt4, columns, depth, 16, ScaleType::kBF16, seed);
}

// gate and up [20, 24], down [24, 20]
std::vector<MadeMatrix> expert_parts() {
  return {int4(20, 24, 1), int4(20, 24, 2), int4(24, 20, 3)};
}

ModelConfig head_config() {
  ModelConfig config;
  config.n_heads = 3;
  config.kv_latent = 32;
  config.nope_width = 12;
  config.value_width = 20;
  return config;
}

std::vector<MadeMatrix> head_parts(uint32_t n_heads) {
  std::vector<MadeMatrix> parts;
  for (uint32_t head = 0; head < n_heads; ++head) {
    parts.push_back(make_packed_matrix(WeightFormat::kBF16, 32, 12, 0, ScaleType::kF32, 2 * head));
    parts.push_back(int4(20, 32, 2 * head + 1));
  }
  return parts;
}

}  // namespace

TEST_CASE("a packed matrix has its weights, in one span with its scales") {
  const MadeMatrix made = int4(20, 40, 0);
  PackedShard shard;
  shard.add_matrix("w", made);
  const TensorIndex index = index_of(shard);
  const WeightSource source = find_packed_matrix(index, "w", 20, 40);
  CHECK(source.format == StoredFormat::kPacked);
  CHECK(source.packed == made.layout);
  CHECK(source.values.bytes == made.bytes.size());
  CHECK_FALSE(source.scales.bytes != 0);
  CHECK(source.stored_bytes() == made.bytes.size());
  CHECK(read(index, source) == made.weights);
}

TEST_CASE("a packed matrix has the shape and form that its use implies") {
  PackedShard shard;
  shard.add_matrix("w", int4(20, 40, 0));
  shard.add_expert("e", expert_parts());
  const TensorIndex index = index_of(shard);
  const auto refuse = [&](const char *name, uint64_t rows, uint64_t columns,
                          std::initializer_list<std::string_view> parts) {
    expect_failure(StatusCode::kFormat, parts,
                   [&] { find_packed_matrix(index, name, rows, columns); });
  };
  refuse("w", 40, 20, {"tensor w", "shard.safetensors", "[20, 40]", "[40, 20]"});
  refuse("w", 20, 41, {"[20, 41]"});
  refuse("w", UINT64_MAX, 40, {"tensor w"});
  refuse("e", 20, 24, {"tensor e", "'expert'", "'matrix'"});
}

TEST_CASE("scales beside a packed matrix are a contradiction") {
  for (const char *scales : {"w.qs", "w_scale_inv"}) {
    PackedShard shard;
    shard.add_matrix("w", int4(20, 40, 0));
    shard.add_plain(scales, "F32", {1}, float_bytes({1.0f}));
    const TensorIndex index = index_of(shard);
    expect_failure(StatusCode::kFormat, {"tensor w", "packed", scales + 1},
                   [&] { find_packed_matrix(index, "w", 20, 40); });
  }
}

TEST_CASE("an expert's matrices stand one after another in one slab") {
  const std::vector<MadeMatrix> parts = expert_parts();
  PackedShard shard;
  shard.add_expert("e", parts);
  const TensorIndex index = index_of(shard);
  const ExpertSource expert = find_packed_expert(index, "e", 20, 24);
  CHECK(read(index, expert.gate) == parts[0].weights);
  CHECK(read(index, expert.up) == parts[1].weights);
  CHECK(read(index, expert.down) == parts[2].weights);
  CHECK(expert.slab.offset == index.find("e")->offset);
  CHECK(expert.slab.bytes == index.find("e")->bytes);
  CHECK(expert.slab.bytes % kPackedAlignment == 0);
  CHECK(expert.gate.values.offset == expert.slab.offset);
  CHECK(expert.up.values.offset == expert.gate.values.offset + expert.gate.values.bytes);
  CHECK(expert.down.values.offset == expert.up.values.offset + expert.up.values.bytes);
}

TEST_CASE("biases of an expert stand behind its matrices") {
  std::vector<MadeMatrix> parts = expert_parts();
  for (const uint32_t columns : {20u, 20u, 24u}) {
    parts.push_back(make_packed_matrix(WeightFormat::kF32, columns, 1, 0, ScaleType::kF32,
                                       static_cast<uint32_t>(parts.size())));
  }
  PackedShard shard;
  shard.add_expert("e", parts);
  const TensorIndex index = index_of(shard);
  const ExpertSource expert = find_packed_expert(index, "e", 20, 24);
  CHECK(read(index, expert.down) == parts[2].weights);
  CHECK(read(index, expert.gate_bias) == parts[3].weights);
  CHECK(read(index, expert.up_bias) == parts[4].weights);
  CHECK(read(index, expert.down_bias) == parts[5].weights);
  CHECK(expert.gate_bias.values.offset == expert.down.values.offset + expert.down.values.bytes);
}

TEST_CASE("an expert of another width or form is refused") {
  PackedShard shard;
  shard.add_expert("e", expert_parts());
  shard.add_matrix("w", int4(20, 24, 0));
  const TensorIndex index = index_of(shard);
  expect_failure(StatusCode::kFormat, {"tensor e", "part 0", "[20, 24]", "[21, 24]"},
                 [&] { find_packed_expert(index, "e", 21, 24); });
  expect_failure(StatusCode::kFormat, {"tensor e", "[20, 25]"},
                 [&] { find_packed_expert(index, "e", 20, 25); });
  expect_failure(StatusCode::kFormat, {"tensor w", "'matrix'", "'expert'"},
                 [&] { find_packed_expert(index, "w", 20, 24); });
}

TEST_CASE("heads have their halves one after another, head after head") {
  const std::vector<MadeMatrix> parts = head_parts(3);
  PackedShard shard;
  shard.add_heads("h", parts);
  const TensorIndex index = index_of(shard);
  const KvHeadsSource heads = find_packed_heads(index, "h", head_config());
  REQUIRE(heads.is_present());
  CHECK(heads.n_heads == 3);
  CHECK(heads.values.offset == index.find("h")->offset);
  uint64_t offset = heads.values.offset;
  for (uint32_t head = 0; head < 3; ++head) {
    for (const size_t half : {0, 1}) {
      const WeightSource source = head_part(heads, head, half);
      INFO("head " << head << " half " << half);
      CHECK(source.values.offset == offset);
      CHECK(read(index, source) == parts[2 * head + half].weights);
      offset += source.values.bytes;
    }
  }
  CHECK(offset == heads.values.offset + heads.values.bytes);
  CHECK_FALSE(KvHeadsSource().is_present());
}

TEST_CASE("heads that do not fit the config are refused") {
  PackedShard shard;
  shard.add_heads("h", head_parts(3));
  shard.add_expert("e", expert_parts());
  const TensorIndex index = index_of(shard);
  const auto refuse = [&](const char *name, void (*bend)(ModelConfig *),
                          std::initializer_list<std::string_view> parts) {
    ModelConfig config = head_config();
    bend(&config);
    expect_failure(StatusCode::kFormat, parts, [&] { find_packed_heads(index, name, config); });
  };
  refuse("h", [](ModelConfig *config) { config->n_heads = 4; }, {"tensor h", "3 heads", "4"});
  refuse("h", [](ModelConfig *config) { config->nope_width = 13; }, {"part 0", "[32, 13]"});
  refuse("h", [](ModelConfig *config) { config->value_width = 21; }, {"part 1", "[21, 32]"});
  refuse("h", [](ModelConfig *config) { config->kv_latent = 33; }, {"part 0", "[33, 12]"});
  refuse("e", [](ModelConfig *) {}, {"tensor e", "'expert'", "'heads'"});
}

TEST_CASE("a kv_b_proj packed as one matrix is not supported") {
  PackedShard shard;
  shard.add_matrix("h", int4(96, 32, 0));
  const TensorIndex index = index_of(shard);
  expect_failure(StatusCode::kUnsupported, {"tensor h", "one matrix", "by heads"},
                 [&] { find_packed_heads(index, "h", head_config()); });
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0

#include "lib/model/dense_loader.h"

#include <cstring>

#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr uint64_t kSlice = DenseWeights::kLoadSliceBytes;

WeightSource plain_source(const std::string &name, uint64_t rows, uint64_t columns) {
  WeightSource source;
  source.name = name;
  source.format = StoredFormat::kBF16;
  source.rows = rows;
  source.columns = columns;
  source.values = {0, 0, rows * columns * 2};
  return source;
}

}  // namespace

TEST_CASE("rows of a large matrix are cut at multiples of 128 into slices of bounded size") {
  const WeightSource source = plain_source("m", 10000, 4096);
  PackedMatrix target;
  DenseItem item;
  item.source = &source;
  item.matrix = &target;
  item.bytes = source.values.bytes;
  const std::vector<DenseItem> items = {item};
  const std::vector<LoadUnit> units = cut_into_units(items);
  CHECK(units.size() == (10000 + 1023) / 1024);
  uint64_t next = 0;
  for (const LoadUnit &unit : units) {
    CHECK(unit.first == next);
    CHECK(unit.first % 128 == 0);
    CHECK(unit.count * 4096 * 2 <= kSlice);
    next = unit.first + unit.count;
  }
  CHECK(next == 10000);
}

TEST_CASE("a packed tensor is cut into byte ranges of bounded size that cover it once") {
  const WeightSource source = plain_source("m", 1, 1);
  PackedMatrix target;
  for (const uint64_t bytes : {uint64_t{64}, kSlice, kSlice + 64, 3 * kSlice - 64}) {
    DenseItem item;
    item.source = &source;
    item.matrix = &target;
    item.bytes = bytes;
    item.packed = {0, 4096, bytes};
    const std::vector<DenseItem> items = {item};
    uint64_t next = 0;
    for (const LoadUnit &unit : cut_into_units(items)) {
      CHECK(unit.first == next);
      CHECK(unit.count > 0);
      CHECK(unit.count <= kSlice);
      CHECK(unit.bytes == unit.count);
      next = unit.first + unit.count;
    }
    CHECK(next == bytes);
  }
}

TEST_CASE("a unit of a packed tensor fills its bytes and no other, without staging") {
  const TempFolder folder;
  const PackedModel model;
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  DenseWeights weights;
  const DenseList list(snapshot, &weights);
  Buffer memory(list.total_bytes(), "places");
  list.bind(memory.data(), &weights);
  const UnitLoader loader(snapshot, memory.data());
  size_t n_checked = 0;
  for (const DenseItem &item : list.items()) {
    if (item.packed.bytes < 256) continue;
    std::memset(memory.data(), 0xA5, memory.size());
    UnitLoader::Staging staging;
    loader.load({&item, 64, 128, 128}, &staging);
    CHECK(staging.raw.size() + staging.packed.size() == 0);
    std::vector<uint8_t> expected(memory.size(), 0xA5);
    const Reader &file = *snapshot.index().files()[item.packed.file].reader;
    REQUIRE(file.read_at(item.packed.offset + 64, expected.data() + item.offset + 64, 128).is_ok());
    CHECK(std::memcmp(memory.data(), expected.data(), expected.size()) == 0);
    ++n_checked;
  }
  CHECK(n_checked > 10);
}

TEST_CASE("a packed tensor that cannot be read is an I/O error with its name") {
  const TempFolder folder;
  PackedModel().write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  DenseWeights weights;
  const DenseList list(snapshot, &weights);
  Buffer memory(list.total_bytes(), "places");
  list.bind(memory.data(), &weights);
  DenseItem item = list.items()[0];
  item.packed.offset += uint64_t{1} << 40;
  UnitLoader::Staging staging;
  expect_failure(StatusCode::kIo, {"model.embed_tokens.weight", "model.safetensors"}, [&] {
    UnitLoader(snapshot, memory.data()).load({&item, 0, 64, 64}, &staging);
  });
}

}  // namespace colibri::test

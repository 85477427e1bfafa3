// SPDX-License-Identifier: Apache-2.0

#include "lib/model/dense_items.h"

#include <map>

#include "tests/snapshot/packed_model.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

// Places begin aligned, do not overlap and end at the planned bytes.
void check_places(const DenseList &list) {
  uint64_t end = 0;
  for (const DenseItem &item : list.items()) {
    INFO(*item.name);
    CHECK(item.offset % 64 == 0);
    CHECK(item.offset >= end);
    CHECK(item.offset < end + 64);
    CHECK(item.bytes > 0);
    end = item.offset + item.bytes;
  }
  CHECK(end <= list.total_bytes());
  CHECK(list.total_bytes() < end + 64);
}

}  // namespace

TEST_CASE("places of dense tensors follow one another, aligned, in every kind of snapshot") {
  const TempFolder packed;
  PackedModel().write(packed);
  for (const std::string &path :
       {packed.path(), std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-fp8",
        std::string(COLIBRI_TEST_DATA) + "/glm_moe_dsa-int4g64"}) {
    const Snapshot snapshot = Snapshot::open(path);
    DenseWeights weights;
    const DenseList list(snapshot, &weights);
    CHECK(weights.layers.size() == snapshot.config().n_layers);
    CHECK(list.total_bytes() == DenseWeights::bytes(snapshot));
    check_places(list);
  }
}

TEST_CASE("a packed tensor takes as many bytes in memory as in the file") {
  const TempFolder folder;
  const PackedModel model;
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  DenseWeights weights;
  const DenseList list(snapshot, &weights);
  std::map<std::string, const DenseItem *> items;
  for (const DenseItem &item : list.items()) items[*item.name] = &item;
  for (const PackedEntry &entry : model.entries) {
    INFO(entry.name);
    if (entry.form == PackedForm::kExpert) {
      CHECK(items.count(entry.name) == 0);
      continue;
    }
    REQUIRE(items.count(entry.name) == 1);
    uint64_t bytes = 0;
    for (const MadeMatrix &part : entry.parts) bytes += part.bytes.size();
    CHECK(items[entry.name]->packed.bytes == bytes);
    if (entry.form) CHECK(items[entry.name]->bytes == bytes);
    CHECK((items[entry.name]->kv_up != nullptr) == (entry.form == PackedForm::kHeads));
  }
}

TEST_CASE("every matrix is bound to its place, the heads of kv_b_proj in the file's order") {
  const TempFolder folder;
  PackedModel().write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  DenseWeights weights;
  const DenseList list(snapshot, &weights);
  uint8_t *base = reinterpret_cast<uint8_t *>(uintptr_t{1} << 20);
  list.bind(base, &weights);
  for (const DenseItem &item : list.items()) {
    if (item.matrix != nullptr) CHECK(item.matrix->values == base + item.offset);
    if (item.kv_up == nullptr) continue;
    const uint8_t *place = base + item.offset;
    REQUIRE(item.kv_up->key_up.size() == snapshot.config().n_heads);
    for (uint32_t head = 0; head < snapshot.config().n_heads; ++head) {
      CHECK(item.kv_up->key_up[head].values == place);
      place += item.kv_up->key_up[head].layout.total_bytes();
      CHECK(item.kv_up->value_up[head].values == place);
      place += item.kv_up->value_up[head].layout.total_bytes();
    }
    CHECK(place == base + item.offset + item.bytes);
  }
}

TEST_CASE("a tied head is the embedding and takes no place") {
  const TempFolder folder;
  PackedModel model;
  model.tiny.config["tie_word_embeddings"] = "true";
  model.erase("lm_head.weight");
  model.write(folder);
  const Snapshot snapshot = Snapshot::open(folder.path());
  DenseWeights weights;
  const DenseList list(snapshot, &weights);
  list.bind(reinterpret_cast<uint8_t *>(uintptr_t{1} << 20), &weights);
  CHECK(weights.head.values != nullptr);
  CHECK(weights.head.values == weights.embedding.values);
  CHECK(weights.head.layout == weights.embedding.layout);
}

}  // namespace colibri::test

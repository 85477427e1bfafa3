// SPDX-License-Identifier: Apache-2.0
//
// Offsets of a slot, prefixes copied between slots, and blobs.

#include "lib/model/kv_layout.h"

#include <cstring>
#include <vector>

#include "lib/base/buffer.h"
#include "tests/support/catch.h"

namespace colibri {
namespace {

ModelConfig small_config() {
  ModelConfig config;
  config.n_layers = 3;
  config.kv_latent = 5;
  config.rotary.width = 2;
  config.index_width = 4;
  config.index_top_k = 8;
  config.indexer_kinds = {IndexerKind::kFull, IndexerKind::kShared, IndexerKind::kFull};
  return config;
}

// A value that tells layer, kind, position and element.
float mark(uint32_t layer, bool is_index, uint32_t position, uint32_t element) {
  return static_cast<float>(((layer * 2 + (is_index ? 1 : 0)) * 1000 + position) * 10 + element);
}

constexpr uint32_t kRowWidth = 7;  // of small_config()

float *row(const KvLayout &layout, uint8_t *slot, uint32_t layer, uint32_t position) {
  return reinterpret_cast<float *>(layout.key_at(slot, layer, position));
}

void fill(const KvLayout &layout, uint8_t *slot, uint32_t length) {
  for (uint32_t layer = 0; layer < layout.n_layers(); ++layer) {
    for (uint32_t p = 0; p < length; ++p) {
      for (uint32_t i = 0; i < kRowWidth; ++i)
        row(layout, slot, layer, p)[i] = mark(layer, false, p, i);
      float *panels = layout.index_panels(slot, layer);
      if (panels == nullptr) continue;
      for (uint32_t i = 0; i < layout.index_width(); ++i) {
        panels[(p / 16 * layout.index_width() + i) * 16 + p % 16] = mark(layer, true, p, i);
      }
    }
  }
}

void check(const KvLayout &layout, uint8_t *slot, uint32_t length) {
  for (uint32_t layer = 0; layer < layout.n_layers(); ++layer) {
    for (uint32_t p = 0; p < length; ++p) {
      for (uint32_t i = 0; i < kRowWidth; ++i) {
        REQUIRE(row(layout, slot, layer, p)[i] == mark(layer, false, p, i));
      }
      const float *panels = layout.index_panels(slot, layer);
      if (panels == nullptr) continue;
      for (uint32_t i = 0; i < layout.index_width(); ++i) {
        REQUIRE(panels[(p / 16 * layout.index_width() + i) * 16 + p % 16] ==
                mark(layer, true, p, i));
      }
    }
  }
}

// 64-byte aligned, as a slot is.
class Slot {
 public:
  explicit Slot(const KvLayout &layout) : memory_(layout.slot_bytes(), "a test's slot") {
    std::memset(memory_.data(), 0x77, layout.slot_bytes());
  }
  uint8_t *data() { return memory_.data(); }

 private:
  Buffer memory_;
};

}  // namespace

TEST_CASE("a slot holds rows of every layer and key panels of layers with an indexer") {
  const KvLayout layout(small_config(), {20});
  CHECK(layout.layer(2).key_width == kRowWidth);
  CHECK(layout.bytes_per_position() == (3 * 7 + 2 * 4) * sizeof(float));
  // Parts begin at multiples of 64 bytes; panels are padded to 32 positions.
  CHECK(layout.slot_bytes() == 3 * 576 + 2 * 32 * 4 * sizeof(float));
  Slot slot(layout);
  CHECK(layout.index_panels(slot.data(), 1) == nullptr);
  fill(layout, slot.data(), 20);
  check(layout, slot.data(), 20);
}

TEST_CASE("sizes beyond 32 bits are exact") {
  ModelConfig config = small_config();
  config.n_layers = 78;
  config.kv_latent = 512;
  config.rotary.width = 64;
  config.index_top_k = 2048;
  config.index_width = 128;
  config.indexer_kinds.assign(78, IndexerKind::kFull);
  const KvLayout layout(config, {1u << 20});
  CHECK(layout.slot_bytes() == (uint64_t{1} << 20) * 78 * (576 + 128) * 4);
}

TEST_CASE("a prefix of any length is copied exactly") {
  const KvLayout layout(small_config(), {40});
  Slot source(layout);
  fill(layout, source.data(), 40);
  for (const uint32_t length : {0u, 1u, 15u, 16u, 17u, 33u, 40u}) {
    Slot target(layout);
    layout.copy_prefix(source.data(), target.data(), length);
    check(layout, target.data(), length);
  }
}

TEST_CASE("a blob moves a prefix between slots of different capacities") {
  const KvLayout small(small_config(), {17});
  const KvLayout large(small_config(), {50});
  Slot source(large);
  fill(large, source.data(), 50);
  for (const uint32_t length : {0u, 1u, 16u, 17u}) {
    std::vector<uint8_t> blob(large.blob_bytes(length));
    CHECK(blob.size() == length * large.bytes_per_position());
    large.save_prefix(source.data(), length, blob.data());
    Slot target(small);
    small.restore_prefix(target.data(), length, blob.data());
    check(small, target.data(), length);
  }
}

}  // namespace colibri

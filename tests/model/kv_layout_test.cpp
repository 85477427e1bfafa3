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

namespace {

// Two layers of two heads, the first with a window of 12.
ModelConfig windowed_config() {
  ModelConfig config;
  config.n_layers = 2;
  config.attention = AttentionKind::kGrouped;
  config.n_heads = 4;
  config.n_kv_heads = 2;
  config.head_width = 3;
  config.windows = {12, 0};
  return config;
}

uint16_t half_mark(uint32_t layer, bool is_value, uint32_t head, uint32_t position, uint32_t i) {
  const uint32_t part = (layer * 2 + (is_value ? 1 : 0)) * 2 + head;
  return static_cast<uint16_t>((part * 400 + position) * 3 + i);
}

// Visits every element of positions [first, end) of a layer of 16-bit entries.
template <typename Visit>
void visit_halves(const KvLayout &layout, uint8_t *slot, uint32_t layer, uint32_t first,
                  uint32_t end, const Visit &visit) {
  const KvLayer &kv = layout.layer(layer);
  for (uint32_t p = first; p < end; ++p) {
    for (uint32_t head = 0; head < kv.n_heads; ++head) {
      auto *key = reinterpret_cast<uint16_t *>(layout.key_at(slot, layer, p));
      auto *value = reinterpret_cast<uint16_t *>(layout.value_at(slot, layer, p));
      for (uint32_t i = 0; i < kv.key_width; ++i) {
        visit(&key[head * kv.key_head_stride() + i], half_mark(layer, false, head, p, i));
        visit(&value[head * kv.value_head_stride() + i], half_mark(layer, true, head, p, i));
      }
    }
  }
}

void fill_halves(const KvLayout &layout, uint8_t *slot, uint32_t length) {
  for (uint32_t layer = 0; layer < 2; ++layer) {
    visit_halves(layout, slot, layer, 0, length, [](uint16_t *at, uint16_t mark) { *at = mark; });
  }
}

// What the next row sees.
void check_halves(const KvLayout &layout, uint8_t *slot, uint32_t length) {
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const uint32_t first = layer == 0 ? layout.first_needed(length) : 0;
    visit_halves(layout, slot, layer, first, length,
                 [](const uint16_t *at, uint16_t mark) { REQUIRE(*at == mark); });
  }
}

}  // namespace

TEST_CASE("a windowed layer has places for its window and one pass, the others for the capacity") {
  const KvLayout layout(windowed_config(), {300, 53, KvType::kBF16});
  CHECK(layout.layer(0).places == 64);
  CHECK(layout.layer(0).ring() == 64);
  CHECK(layout.layer(1).places == 300);
  CHECK(layout.layer(1).ring() == 0);
  CHECK(layout.bytes_per_position() == 2 * 2 * 3 * 2);
  const KvLayout larger(windowed_config(), {300, 54, KvType::kBF16});
  CHECK(larger.layer(0).places == 128);
  const KvLayout small(windowed_config(), {64, 53, KvType::kBF16});
  CHECK(small.layer(0).ring() == 0);
  CHECK(layout.first_needed(11) == 0);
  CHECK(layout.first_needed(12) == 1);
  CHECK(layout.first_kept(64) == 0);
  CHECK(layout.first_kept(65) == 1);
  CHECK(small.first_kept(64) == 0);
}

TEST_CASE("rings are copied and saved across their end, also into other capacities") {
  const KvLayout layout(windowed_config(), {300, 50, KvType::kF16});
  const KvLayout other(windowed_config(), {250, 200, KvType::kF16});
  for (const uint32_t length : {0u, 1u, 12u, 63u, 64u, 65u, 70u, 128u, 200u}) {
    Slot source(layout);
    fill_halves(layout, source.data(), length);
    Slot copy(layout);
    layout.copy_prefix(source.data(), copy.data(), length);
    check_halves(layout, copy.data(), length);
    std::vector<uint8_t> blob(layout.blob_bytes(length));
    layout.save_prefix(source.data(), length, blob.data());
    REQUIRE(other.blob_bytes(length) == blob.size());
    Slot moved(other);
    other.restore_prefix(moved.data(), length, blob.data());
    check_halves(other, moved.data(), length);
  }
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0

#include "lib/runtime/kv_pool.h"

#include <set>
#include <string>

#include "tests/runtime/fake_model.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::test::make_fake_config;

namespace {

// Fills positions [0, tokens.size()) of a slot with numbers that name slot, layer and position.
void fill(const KvLayout &layout, KvSlot &slot, std::span<const int32_t> tokens, float offset) {
  for (uint32_t layer = 0; layer < layout.n_layers(); ++layer) {
    for (size_t i = 0; i < tokens.size() * layout.layer(layer).key_width; ++i) {
      reinterpret_cast<float *>(layout.keys(slot.data(), layer))[i] =
          offset + static_cast<float>(layer) * 1000.0f + static_cast<float>(i);
    }
  }
  for (size_t i = 0; i < (tokens.size() + 15) / 16 * 16 * layout.index_width(); ++i) {
    layout.index_panels(slot.data(), 0)[i] = offset - static_cast<float>(i);
  }
  slot.append(tokens);
}

std::vector<uint8_t> save(const KvSlot &slot, const KvFingerprint &fingerprint = {}) {
  std::vector<uint8_t> blob(slot.blob_bytes());
  slot.save(fingerprint, blob.data());
  return blob;
}

}  // namespace

TEST_CASE("a pool hands out each slot once, empty, with memory of its own") {
  const KvLayout layout(make_fake_config(64), {20});
  KvPool pool(layout, 3);
  std::set<uint8_t *> regions;
  std::vector<KvSlot *> slots;
  for (uint32_t i = 0; i < 3; ++i) {
    KvSlot *slot = pool.take();
    REQUIRE(slot != nullptr);
    CHECK(slot->capacity() == 20);
    regions.insert(slot->data());
    slots.push_back(slot);
  }
  CHECK(pool.take() == nullptr);
  CHECK(pool.n_taken() == 3);
  const auto distance = static_cast<size_t>(*std::next(regions.begin()) - *regions.begin());
  CHECK(distance == layout.slot_bytes());

  const std::vector<int32_t> tokens = {1, 2, 3};
  slots[1]->append(tokens);
  pool.give_back(slots[1]);
  pool.give_back(nullptr);
  CHECK(pool.n_taken() == 2);
  KvSlot *again = pool.take();
  REQUIRE(again == slots[1]);
  CHECK(again->length() == 0);
}

TEST_CASE("a pool too large for the machine is refused with its size") {
  const KvLayout layout(make_fake_config(64), {1u << 31});
  try {
    KvPool pool(layout, 1u << 31);
    FAIL("2^31 slots of 2^31 positions fit no machine");
  } catch (const Error &error) {
    CHECK(error.status().code() == StatusCode::kMemory);
  }
}

TEST_CASE("a slot can be cut back to every length") {
  const KvLayout layout(make_fake_config(64), {40});
  KvPool pool(layout, 1);
  KvSlot &slot = *pool.take();
  std::vector<int32_t> tokens(40);
  for (int32_t i = 0; i < 40; ++i) tokens[static_cast<size_t>(i)] = i;
  fill(layout, slot, tokens, 0.0f);
  for (uint32_t length = 40; length-- > 0;) {
    slot.truncate(length);
    CHECK(slot.length() == length);
    CHECK(slot.tokens() == std::vector<int32_t>(tokens.begin(), tokens.begin() + length));
  }
}

TEST_CASE("a copied prefix has the bits of the original and leaves it as it was") {
  const KvLayout layout(make_fake_config(64), {40});
  KvPool pool(layout, 2);
  KvSlot &source = *pool.take();
  KvSlot &fork = *pool.take();
  const std::vector<int32_t> tokens(37, 5);
  fill(layout, source, tokens, 7.0f);
  const std::vector<uint8_t> before = save(source);
  for (const uint32_t length : {37u, 16u, 1u, 0u}) {
    fork.copy_prefix_from(source, length);
    REQUIRE(fork.length() == length);
    CHECK(save(source) == before);
    KvSlot &whole = source;
    whole.truncate(length);
    CHECK(save(fork) == save(whole));
    whole.append(std::span(tokens).first(37 - length));
  }
}

TEST_CASE("a saved slot is restored bit for bit, also into a slot of another capacity") {
  const KvLayout layout(make_fake_config(64), {40});
  const KvLayout larger_layout(make_fake_config(64), {77});
  KvPool pool(layout, 2);
  KvPool larger(larger_layout, 1);
  const KvFingerprint fingerprint{11, 22, 1e-5f, 1};
  KvSlot &slot = *pool.take();
  for (const size_t length : {0u, 1u, 16u, 33u, 40u}) {
    slot.truncate(0);
    const std::vector<int32_t> tokens(length, 9);
    fill(layout, slot, tokens, 3.0f);
    const std::vector<uint8_t> blob = save(slot, fingerprint);
    for (KvPool *target : {&pool, &larger}) {
      KvSlot &restored = *target->take();
      REQUIRE(restored.restore(fingerprint, blob).is_ok());
      CHECK(restored.tokens() == tokens);
      CHECK(save(restored, fingerprint) == blob);
      target->give_back(&restored);
    }
  }
}

TEST_CASE("a blob of another model or setting is refused by the name of what differs") {
  const KvLayout layout(make_fake_config(64), {40});
  KvPool pool(layout, 2);
  const KvFingerprint fingerprint{11, 22, 1e-5f, 1};
  KvSlot &slot = *pool.take();
  fill(layout, slot, std::vector<int32_t>(5, 1), 0.0f);
  const std::vector<uint8_t> blob = save(slot, fingerprint);
  const auto refusal = [&](KvSlot &target, const KvFingerprint &other) {
    target.append(std::vector<int32_t>{1});
    const Status status = target.restore(other, blob);
    CHECK(target.length() == 0);
    CHECK(status.code() == StatusCode::kMismatch);
    return std::string(status.message());
  };
  KvSlot &target = *pool.take();
  CHECK(refusal(target, {12, 22, 1e-5f, 1}).find("snapshot identity") != std::string::npos);
  CHECK(refusal(target, {11, 23, 1e-5f, 1}).find("config") != std::string::npos);
  CHECK(refusal(target, {11, 22, 1e-6f, 1}).find("latent_norm_eps is 1e-05") != std::string::npos);
  CHECK(refusal(target, {11, 22, 1e-5f, 2}).find("activation mode") != std::string::npos);

  const auto other_layout = [&](auto change) {
    ModelConfig config = make_fake_config(64);
    change(config);
    const KvLayout changed(config, {40});
    KvPool other(changed, 1);
    return refusal(*other.take(), fingerprint);
  };
  CHECK(other_layout([](ModelConfig &c) {
          c.n_layers = 3;
          c.indexer_kinds.push_back(IndexerKind::kShared);
        }).find("number of layers is 2, this model has 3") != std::string::npos);
  CHECK(other_layout([](ModelConfig &c) { c.kv_latent = 6; }).find("widths and windows") !=
        std::string::npos);
  CHECK(other_layout([](ModelConfig &c) { c.index_width = 4; }).find("indexer key") !=
        std::string::npos);
  CHECK(other_layout([](ModelConfig &c) {
          c.indexer_kinds = {IndexerKind::kFull, IndexerKind::kFull};
        }).find("indexer layers") != std::string::npos);
}

TEST_CASE("a blob with more positions than the slot holds is refused with both numbers") {
  const KvLayout layout(make_fake_config(64), {40});
  const KvLayout small_layout(make_fake_config(64), {9});
  KvPool pool(layout, 1);
  KvPool small(small_layout, 1);
  KvSlot &slot = *pool.take();
  fill(layout, slot, std::vector<int32_t>(10, 1), 0.0f);
  const Status status = small.take()->restore({}, save(slot));
  CHECK(status.code() == StatusCode::kContext);
  CHECK(std::string(status.message()).find("10 positions, this slot holds 9") != std::string::npos);
}

TEST_CASE("every cut and every flipped bit of a blob is found") {
  const KvLayout layout(make_fake_config(64), {8});
  KvPool pool(layout, 2);
  KvSlot &slot = *pool.take();
  KvSlot &target = *pool.take();
  fill(layout, slot, std::vector<int32_t>(3, 1), 0.0f);
  const std::vector<uint8_t> blob = save(slot);
  for (size_t n_bytes = 0; n_bytes < blob.size(); ++n_bytes) {
    // A copy of exactly so many bytes, so that a sanitizer sees a read beyond them.
    const std::vector<uint8_t> cut(blob.begin(), blob.begin() + static_cast<ptrdiff_t>(n_bytes));
    REQUIRE(target.restore({}, cut).code() == StatusCode::kFormat);
  }
  for (size_t bit = 0; bit < blob.size() * 8; ++bit) {
    std::vector<uint8_t> damaged = blob;
    damaged[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    REQUIRE(target.restore({}, damaged).code() == StatusCode::kFormat);
    REQUIRE(target.length() == 0);
  }
  std::vector<uint8_t> longer = blob;
  longer.push_back(0);
  CHECK(target.restore({}, longer).code() == StatusCode::kFormat);
  CHECK(target.restore({}, blob).is_ok());
}

TEST_CASE("entries and ids that could do harm are refused although the checksum is right") {
  const KvLayout layout(make_fake_config(64), {8});
  KvPool pool(layout, 2);
  KvSlot &slot = *pool.take();
  KvSlot &target = *pool.take();
  const std::vector<int32_t> tokens = {1, 2};
  fill(layout, slot, tokens, 0.0f);
  reinterpret_cast<float *>(layout.keys(slot.data(), 1))[3] =
      std::numeric_limits<float>::quiet_NaN();
  Status status = target.restore({}, save(slot));
  CHECK(status.code() == StatusCode::kFormat);
  CHECK(std::string(status.message()).find("not a finite number") != std::string::npos);

  slot.truncate(0);
  const std::vector<int32_t> negative = {1, -2};
  fill(layout, slot, negative, 0.0f);
  status = target.restore({}, save(slot));
  CHECK(status.code() == StatusCode::kFormat);
  CHECK(std::string(status.message()).find("position 1 is -2") != std::string::npos);
  CHECK(target.length() == 0);
}

namespace {

ModelConfig make_windowed_config() {
  ModelConfig config = make_fake_config(64);
  config.index_top_k = 0;
  config.indexer_kinds.clear();
  config.windows = {12, 0};
  return config;
}

// Computes rows as a batch does.
void compute(KvSlot &slot, uint32_t n_rows) {
  slot.prepare(n_rows);
  slot.append(std::vector<int32_t>(n_rows, 7));
}

}  // namespace

TEST_CASE("a slot without windows goes on from every length") {
  const KvLayout layout(make_fake_config(64), {200, 3});
  KvPool pool(layout, 2);
  KvSlot &slot = *pool.take();
  for (int i = 0; i < 50; ++i) compute(slot, 3);
  for (uint32_t length = 0; length <= 150; ++length) CHECK(slot.reusable_length(length) == length);
  KvSlot &fork = *pool.take();
  fork.copy_prefix_from(slot, 100);
  for (uint32_t length = 0; length <= 100; ++length) CHECK(fork.reusable_length(length) == length);
}

TEST_CASE("a slot with a window says which lengths it can go on from, at every border") {
  // Window 12, passes of 3 rows: a ring of 64 places.
  const KvLayout layout(make_windowed_config(), {200, 3});
  KvPool pool(layout, 2);
  KvSlot &slot = *pool.take();
  for (uint32_t end = 3; end <= 150; end += 3) {
    compute(slot, 3);
    const uint32_t first_held = end > 64 ? end - 64 : 0;
    for (uint32_t length = 0; length <= end; ++length) {
      const uint32_t needed = length >= 12 ? length - 11 : 0;
      REQUIRE(slot.reusable_length(length) == (needed >= first_held ? length : 0));
    }
  }
  // A pass that fails has overwritten what it would have, and the slot goes on from its length.
  slot.prepare(3);
  CHECK(slot.reusable_length(150) == 150);
  CHECK(slot.reusable_length(150 + 3 - 64 + 11) == 150 + 3 - 64 + 11);
  CHECK(slot.reusable_length(150 + 3 - 64 + 10) == 0);
  KvSlot &fork = *pool.take();
  fork.copy_prefix_from(slot, 140);
  CHECK(fork.reusable_length(140) == 140);
  CHECK(fork.reusable_length(139) == 0);
  slot.truncate(120);
  compute(slot, 3);
  CHECK(slot.reusable_length(123) == 123);
  slot.truncate(0);
  compute(slot, 3);
  CHECK(slot.reusable_length(2) == 2);
}

TEST_CASE("a blob of another number format or window is refused") {
  const auto restore = [](const ModelConfig &config, KvType type, std::span<const uint8_t> blob) {
    const KvLayout layout(config, {40, 3, type});
    KvPool pool(layout, 1);
    return pool.take()->restore({}, blob);
  };
  const KvLayout layout(make_windowed_config(), {40, 3, KvType::kBF16});
  KvPool pool(layout, 1);
  KvSlot &slot = *pool.take();
  std::fill_n(slot.data(), layout.slot_bytes(), uint8_t{0});
  compute(slot, 3);
  const std::vector<uint8_t> blob = save(slot);
  CHECK(restore(make_windowed_config(), KvType::kBF16, blob).is_ok());
  const Status type = restore(make_windowed_config(), KvType::kF16, blob);
  CHECK(type.code() == StatusCode::kMismatch);
  CHECK(std::string(type.message()).find("kv_type is bf16, this model has f16") !=
        std::string::npos);
  ModelConfig config = make_windowed_config();
  config.windows = {13, 0};
  const Status window = restore(config, KvType::kBF16, blob);
  CHECK(window.code() == StatusCode::kMismatch);
  CHECK(std::string(window.message()).find("widths and windows") != std::string::npos);
}

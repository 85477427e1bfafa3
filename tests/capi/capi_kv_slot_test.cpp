// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/kv_slot.h.

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

std::vector<uint8_t> save(const colibri_kv_slot *slot) {
  size_t n_bytes = 0;
  REQUIRE(colibri_kv_slot_save(slot, nullptr, 0, &n_bytes, nullptr) == COLIBRI_OK);
  std::vector<uint8_t> blob(n_bytes);
  REQUIRE(colibri_kv_slot_save(slot, blob.data(), blob.size(), &n_bytes, nullptr) == COLIBRI_OK);
  REQUIRE(n_bytes == blob.size());
  return blob;
}

std::vector<int32_t> tokens_of(const colibri_kv_slot *slot) {
  size_t n_ids = 0;
  REQUIRE(colibri_kv_slot_tokens(slot, nullptr, 0, &n_ids, nullptr) == COLIBRI_OK);
  std::vector<int32_t> ids(n_ids + 1);
  REQUIRE(colibri_kv_slot_tokens(slot, ids.data(), ids.size(), &n_ids, nullptr) == COLIBRI_OK);
  ids.resize(n_ids);
  return ids;
}

Slot fork(colibri_kv_slot *slot, uint32_t length) {
  colibri_kv_slot *copy = nullptr;
  REQUIRE(colibri_kv_slot_fork(slot, length, &copy, nullptr) == COLIBRI_OK);
  return Slot(copy);
}

const std::vector<int32_t> kPrompt = {11, 12, 13, 14, 15, 16, 17};

}  // namespace

TEST_CASE("a slot starts empty, grows by what is decoded, and remembers its tokens") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  CHECK(colibri_kv_slot_length(slot.get()) == 0);
  CHECK(colibri_kv_slot_capacity(slot.get()) == 64);
  CHECK(tokens_of(slot.get()).empty());
  decode(batch.get(), slot.get(), kPrompt);
  CHECK(colibri_kv_slot_length(slot.get()) == 7);
  CHECK(tokens_of(slot.get()) == kPrompt);
  int32_t ids[3] = {-1, -1, -1};
  size_t n_ids = 0;
  CHECK(colibri_kv_slot_tokens(slot.get(), ids, 3, &n_ids, nullptr) == COLIBRI_E_CAPACITY);
  CHECK(n_ids == 7);
  CHECK(ids[0] == -1);
}

TEST_CASE("one slot more than the pool has is refused with the number") {
  const Model model = open_tiny();
  const Slot first = make_slot(model.get());
  Slot second = make_slot(model.get());
  colibri_kv_slot *third = reinterpret_cast<colibri_kv_slot *>(8);
  CHECK_THAT(message_of(COLIBRI_E_CAPACITY,
                        [&](colibri_error *error) {
                          return colibri_kv_slot_create(model.get(), &third, error);
                        }),
             Contains("all 2 KV slots"));
  CHECK(third == nullptr);
  CHECK(colibri_kv_slot_fork(first.get(), 0, &third, nullptr) == COLIBRI_E_CAPACITY);
  CHECK(third == nullptr);
  second.reset();
  CHECK(make_slot(model.get()) != nullptr);
}

TEST_CASE("truncating reaches every shorter length and never a longer one") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> fresh = decode(batch.get(), slot.get(), kPrompt);
  CHECK(colibri_kv_slot_truncate(slot.get(), 8, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_kv_slot_length(slot.get()) == 7);
  for (const uint32_t length : {6u, 3u, 0u}) {
    CHECK(colibri_kv_slot_truncate(slot.get(), length, nullptr) == COLIBRI_OK);
    CHECK(colibri_kv_slot_length(slot.get()) == length);
    const std::vector<float> again = decode(
        batch.get(), slot.get(), std::vector<int32_t>(kPrompt.begin() + length, kPrompt.end()));
    CHECK(again == fresh);
  }
}

namespace {

// Windows of 16 in every other layer; with passes of 16 rows these keep 64 positions.
Model open_windowed(uint32_t n_slots, int32_t kv_type = COLIBRI_KV_DEFAULT) {
  colibri_model_options options = small_options();
  options.context_tokens = 160;
  options.n_slots = n_slots;
  options.kv_type = kv_type;
  return open_model(golden_model("gpt_oss"), options);
}

std::vector<int32_t> long_prompt(uint32_t n_tokens) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < n_tokens; ++i) tokens.push_back(static_cast<int32_t>(3 + i * 7 % 50));
  return tokens;
}

// In passes of 16 rows; logits of the last token.
std::vector<float> decode_long(colibri_batch *batch, colibri_kv_slot *slot,
                               const std::vector<int32_t> &tokens) {
  std::vector<float> logits;
  for (size_t first = 0; first < tokens.size(); first += 16) {
    const size_t end = std::min(first + 16, tokens.size());
    logits = decode(batch, slot,
                    {tokens.begin() + static_cast<std::ptrdiff_t>(first),
                     tokens.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  return logits;
}

uint32_t reusable(const colibri_kv_slot *slot, uint32_t length) {
  uint32_t result = 77;
  REQUIRE(colibri_kv_slot_reusable(slot, length, &result, nullptr) == COLIBRI_OK);
  return result;
}

}  // namespace

TEST_CASE("a slot of a windowed model reaches what it says and nothing else") {
  const Model model = open_windowed(2);
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<int32_t> prompt = long_prompt(97);
  colibri_model_facts facts{};
  facts.struct_size = sizeof facts;
  REQUIRE(colibri_model_get_facts(model.get(), &facts, nullptr) == COLIBRI_OK);
  CHECK(facts.kv_window_layers > 0);
  const std::vector<float> fresh = decode_long(batch.get(), slot.get(), prompt);
  // Positions from 33 on are there; a row at 48 is the first whose window begins there.
  CHECK(reusable(slot.get(), 97) == 97);
  CHECK(reusable(slot.get(), 48) == 48);
  CHECK(reusable(slot.get(), 47) == 0);
  uint32_t result = 77;
  CHECK(colibri_kv_slot_reusable(slot.get(), 98, &result, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(result == 0);
  CHECK_THAT(message_of(COLIBRI_E_ARGUMENT,
                        [&](colibri_error *error) {
                          return colibri_kv_slot_truncate(slot.get(), 47, error);
                        }),
             Contains("0 can be reached"));
  colibri_kv_slot *none = nullptr;
  CHECK(colibri_kv_slot_fork(slot.get(), 47, &none, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_kv_slot_length(slot.get()) == 97);
  for (const uint32_t length : {90u, 60u, 0u}) {
    CHECK(reusable(slot.get(), length) == length);
    {
      const Slot copy = fork(slot.get(), length);
      CHECK(decode_long(batch.get(), copy.get(), {prompt.begin() + length, prompt.end()}) == fresh);
    }
    CHECK(colibri_kv_slot_truncate(slot.get(), length, nullptr) == COLIBRI_OK);
    CHECK(decode_long(batch.get(), slot.get(), {prompt.begin() + length, prompt.end()}) == fresh);
  }
  const std::vector<uint8_t> blob = save(slot.get());
  const Slot restored = make_slot(model.get());
  CHECK(colibri_kv_slot_restore(restored.get(), blob.data(), blob.size(), nullptr) == COLIBRI_OK);
  CHECK(decode(batch.get(), restored.get(), {5}) == decode(batch.get(), slot.get(), {5}));
}

TEST_CASE("a scheduler reuses slots of a windowed model only where it can") {
  const Model model = open_windowed(1);
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> prompt = long_prompt(97);
  const std::vector<int32_t> start(prompt.begin(), prompt.begin() + 20);
  const Outcome first = generate(scheduler.get(), prompt, 8);
  const Outcome again = generate(scheduler.get(), prompt, 8);
  CHECK(again.n_prompt_reused == 96);
  const Outcome short_one = generate(scheduler.get(), start, 8);
  CHECK(short_one.n_prompt_reused == 0);
  const Outcome last = generate(scheduler.get(), prompt, 8);
  CHECK(last.n_prompt_reused == 20);
  CHECK(again.tokens == first.tokens);
  CHECK(last.tokens == first.tokens);
}

TEST_CASE("keys and values of half the width are an option, and their blobs fit nothing else") {
  const Model wide = open_windowed(1);
  const Slot wide_slot = make_slot(wide.get());
  for (const int32_t type : {COLIBRI_KV_BF16, COLIBRI_KV_F16}) {
    const Model model = open_windowed(1, type);
    colibri_model_facts facts{};
    facts.struct_size = sizeof facts;
    REQUIRE(colibri_model_get_facts(model.get(), &facts, nullptr) == COLIBRI_OK);
    CHECK(facts.kv_type == type);
    const Slot slot = make_slot(model.get());
    const Batch batch = make_batch(model.get());
    decode(batch.get(), slot.get(), kPrompt);
    const std::vector<uint8_t> blob = save(slot.get());
    CHECK_THAT(message_of(COLIBRI_E_MISMATCH,
                          [&](colibri_error *error) {
                            return colibri_kv_slot_restore(wide_slot.get(), blob.data(),
                                                           blob.size(), error);
                          }),
               Contains("this model has f32"));
  }
}

TEST_CASE("a fork continues with the same bits as its source") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> fresh = decode(batch.get(), slot.get(), kPrompt);
  const Slot copy = fork(slot.get(), 4);
  CHECK(colibri_kv_slot_length(copy.get()) == 4);
  CHECK(tokens_of(copy.get()) == std::vector<int32_t>(kPrompt.begin(), kPrompt.begin() + 4));
  CHECK(decode(batch.get(), copy.get(), {15, 16, 17}) == fresh);
  colibri_kv_slot *longer = nullptr;
  CHECK(colibri_kv_slot_fork(slot.get(), 8, &longer, nullptr) == COLIBRI_E_ARGUMENT);
}

TEST_CASE("a saved slot continues with the same bits in another model of another capacity") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  decode(batch.get(), slot.get(), {11, 12, 13, 14, 15});
  const std::vector<uint8_t> blob = save(slot.get());
  const std::vector<float> fresh = decode(batch.get(), slot.get(), {16, 17});

  colibri_model_options options = small_options();
  options.context_tokens = 32;
  options.kernel_set = "ref";
  const Model other = open_model(tiny_model(), options);
  const Slot restored = make_slot(other.get());
  const Batch other_batch = make_batch(other.get());
  decode(other_batch.get(), restored.get(), {1, 2});
  REQUIRE(colibri_kv_slot_restore(restored.get(), blob.data(), blob.size(), nullptr) == COLIBRI_OK);
  CHECK(colibri_kv_slot_length(restored.get()) == 5);
  CHECK(decode(other_batch.get(), restored.get(), {16, 17}) == fresh);
}

TEST_CASE("a blob of other settings, another model, or damaged, leaves the slot empty") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  decode(batch.get(), slot.get(), kPrompt);
  const std::vector<uint8_t> blob = save(slot.get());
  const auto check_refused = [&](colibri_kv_slot *target, std::vector<uint8_t> bytes,
                                 colibri_status expected) {
    message_of(expected, [&](colibri_error *error) {
      return colibri_kv_slot_restore(target, bytes.data(), bytes.size(), error);
    });
    CHECK(colibri_kv_slot_length(target) == 0);
  };
  const auto check_other = [&](const std::string &path, auto change, colibri_status expected) {
    colibri_model_options options = small_options();
    change(options);
    const Model other = open_model(path, options);
    check_refused(make_slot(other.get()).get(), blob, expected);
  };
  using Options = colibri_model_options;
  check_other(
      tiny_model(), [](Options &o) { o.activations = COLIBRI_ACTIVATIONS_FLOAT; },
      COLIBRI_E_MISMATCH);
  check_other(
      tiny_model(), [](Options &o) { o.latent_norm_eps = 0.25f; }, COLIBRI_E_MISMATCH);
  check_other(
      golden_model("glm_moe_dsa-int4g64"), [](Options &) {}, COLIBRI_E_MISMATCH);
  check_other(
      tiny_model(), [](Options &o) { o.context_tokens = 6; }, COLIBRI_E_CONTEXT);

  std::vector<uint8_t> damaged = blob;
  damaged[damaged.size() / 2] ^= 1;
  check_refused(slot.get(), damaged, COLIBRI_E_FORMAT);
  damaged = blob;
  damaged.pop_back();
  check_refused(slot.get(), damaged, COLIBRI_E_FORMAT);
  REQUIRE(colibri_kv_slot_restore(slot.get(), blob.data(), blob.size(), nullptr) == COLIBRI_OK);
  CHECK(tokens_of(slot.get()) == kPrompt);
}

TEST_CASE("a buffer for a blob that is one byte too small is left alone") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  size_t n_bytes = 0;
  REQUIRE(colibri_kv_slot_save(slot.get(), nullptr, 0, &n_bytes, nullptr) == COLIBRI_OK);
  std::vector<uint8_t> blob(n_bytes, 0xaa);
  size_t again = 0;
  CHECK(colibri_kv_slot_save(slot.get(), blob.data(), n_bytes - 1, &again, nullptr) ==
        COLIBRI_E_CAPACITY);
  CHECK(again == n_bytes);
  CHECK(blob == std::vector<uint8_t>(n_bytes, 0xaa));
}

TEST_CASE("a slot whose rows wait in a batch cannot be changed or destroyed") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  Batch batch = make_batch(model.get());
  decode(batch.get(), slot.get(), {1, 2});
  REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  const int32_t token = 3;
  REQUIRE(colibri_batch_add(batch.get(), slot.get(), &token, 1, 0, nullptr, nullptr) == COLIBRI_OK);
  const std::vector<uint8_t> blob = save(slot.get());
  CHECK(colibri_kv_slot_truncate(slot.get(), 0, nullptr) == COLIBRI_E_BUSY);
  CHECK(colibri_kv_slot_restore(slot.get(), blob.data(), blob.size(), nullptr) == COLIBRI_E_BUSY);
  CHECK(colibri_kv_slot_destroy(slot.get(), nullptr) == COLIBRI_E_BUSY);
  CHECK(colibri_kv_slot_length(slot.get()) == 2);
  SECTION("until the batch is cleared") {
    CHECK(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  }
  SECTION("until the batch is decoded") {
    CHECK(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_OK);
  }
  SECTION("until the batch is destroyed") {
    batch.reset();
  }
  CHECK(colibri_kv_slot_truncate(slot.get(), 1, nullptr) == COLIBRI_OK);
}

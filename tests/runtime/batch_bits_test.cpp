// SPDX-License-Identifier: Apache-2.0
//
// The bits contract through batches and slots of real snapshots: the logits of a row do not depend
// on its batch mates, on chunks, or on how the slot came to hold what is before it.

#include <cstring>

#include "tests/runtime/real_engine.h"
#include "tests/runtime/scheduler_driver.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

constexpr uint32_t kCapacity = 96;
constexpr uint32_t kMaxWidth = 16;

struct Subject {
  const char *name;
  ActivationMode activations;
};
const Subject kSubjects[] = {{"glm_moe_dsa-sparse", ActivationMode::kFloat},
                             {"glm_moe_dsa-int4g64", ActivationMode::kInteger}};

bool has_equal_bits(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> last_row(const std::vector<float> &logits, uint32_t vocabulary_size) {
  return {logits.end() - vocabulary_size, logits.end()};
}

}  // namespace

TEST_CASE("chunk sizes 1, 3, 7 and all give the same logits at every position") {
  for (const Subject &subject : kSubjects) {
    RealEngine engine(golden_path(subject.name), 1, kCapacity, subject.activations);
    KvSlot &slot = *engine.pool.take();
    const auto tokens = make_prompt(45, 1, engine.vocabulary_size());
    const std::vector<float> whole = engine.feed(slot, tokens, 0);
    for (const uint32_t chunk : {1u, 3u, 7u}) {
      slot.truncate(0);
      CAPTURE(subject.name, chunk);
      CHECK(has_equal_bits(engine.feed(slot, tokens, chunk), whole));
    }
  }
}

TEST_CASE("copies of one prompt are equal at every batch width") {
  for (const Subject &subject : kSubjects) {
    RealEngine engine(golden_path(subject.name), kMaxWidth, kCapacity, subject.activations);
    std::vector<KvSlot *> slots;
    for (uint32_t i = 0; i < kMaxWidth; ++i) slots.push_back(engine.pool.take());
    const auto prompt = make_prompt(20, 2, engine.vocabulary_size());
    engine.feed(*slots[0], prompt, 0);
    const std::vector<int32_t> next = {3};
    engine.batch.clear();
    REQUIRE(engine.batch.add(*slots[0], next, LogitsMode::kLast, nullptr).is_ok());
    REQUIRE(engine.batch.decode().is_ok());
    const std::vector<float> alone = read_logits(engine.batch, engine.vocabulary_size());
    for (uint32_t i = 1; i < kMaxWidth; ++i) engine.feed(*slots[i], prompt, 1 + i % 5);

    for (uint32_t width = 1; width <= kMaxWidth; ++width) {
      engine.batch.clear();
      for (uint32_t i = 0; i < width; ++i) {
        slots[i]->truncate(20);
        REQUIRE(engine.batch.add(*slots[i], next, LogitsMode::kLast, nullptr).is_ok());
      }
      REQUIRE(engine.batch.decode().is_ok());
      const std::vector<float> logits = read_logits(engine.batch, engine.vocabulary_size());
      for (uint32_t i = 0; i < width; ++i) {
        const auto first = logits.begin() + i * engine.vocabulary_size();
        CAPTURE(subject.name, width, i);
        REQUIRE(has_equal_bits({first, first + engine.vocabulary_size()}, alone));
      }
    }
  }
}

TEST_CASE("prompt chunks and decode rows of several slots may interleave in one batch") {
  RealEngine engine(golden_path("glm_moe_dsa-sparse"), 3, kCapacity, ActivationMode::kFloat);
  KvSlot &a = *engine.pool.take();
  KvSlot &b = *engine.pool.take();
  const auto first = make_prompt(24, 3, engine.vocabulary_size());
  const auto second = make_prompt(21, 4, engine.vocabulary_size());
  const std::vector<float> a_alone = engine.feed(a, first, 0);
  const std::vector<float> b_alone = engine.feed(b, second, 0);
  a.truncate(0);
  b.truncate(20);
  engine.batch.clear();
  const std::span<const int32_t> tokens(first);
  REQUIRE(engine.batch.add(a, tokens.first(10), LogitsMode::kNone, nullptr).is_ok());
  REQUIRE(engine.batch.add(b, std::span(second).last(1), LogitsMode::kLast, nullptr).is_ok());
  REQUIRE(engine.batch.add(a, tokens.subspan(10), LogitsMode::kLast, nullptr).is_ok());
  REQUIRE(engine.batch.decode().is_ok());
  const std::vector<float> logits = read_logits(engine.batch, engine.vocabulary_size());
  std::vector<float> expected = last_row(b_alone, engine.vocabulary_size());
  const std::vector<float> a_last = last_row(a_alone, engine.vocabulary_size());
  expected.insert(expected.end(), a_last.begin(), a_last.end());
  CHECK(has_equal_bits(logits, expected));
}

TEST_CASE("a slot that was cut back, forked or restored continues with the same bits") {
  for (const Subject &subject : kSubjects) {
    RealEngine engine(golden_path(subject.name), 3, kCapacity, subject.activations);
    const auto tokens = make_prompt(50, 5, engine.vocabulary_size());
    KvSlot &slot = *engine.pool.take();
    const std::vector<float> whole = engine.feed(slot, tokens, 0);
    KvSlot &other = *engine.pool.take();
    const auto row = static_cast<ptrdiff_t>(engine.vocabulary_size());
    for (const uint32_t length : {1u, 15u, 16u, 17u, 33u, 49u}) {
      const std::vector<int32_t> rest(tokens.begin() + length, tokens.end());
      const std::vector<float> expected(whole.begin() + length * row, whole.end());
      CAPTURE(subject.name, length);
      // Lanes behind the prefix hold another sequence.
      other.truncate(0);
      engine.feed(other, make_prompt(60, 6, engine.vocabulary_size()), 0);
      other.copy_prefix_from(slot, length);
      CHECK(has_equal_bits(engine.feed(other, rest, 0), expected));

      slot.truncate(length);
      std::vector<uint8_t> blob(slot.blob_bytes());
      slot.save({}, blob.data());
      CHECK(has_equal_bits(engine.feed(slot, rest, 5), expected));

      other.truncate(0);
      engine.feed(other, make_prompt(60, 7, engine.vocabulary_size()), 0);
      REQUIRE(other.restore({}, blob).is_ok());
      CHECK(has_equal_bits(engine.feed(other, rest, 0), expected));
    }
  }
}

TEST_CASE("a slot serves long, short and long sequences alike") {
  RealEngine engine(golden_path("glm_moe_dsa-sparse"), 1, kCapacity, ActivationMode::kFloat);
  KvSlot &slot = *engine.pool.take();
  const auto long_prompt = make_prompt(kCapacity, 8, engine.vocabulary_size());
  const auto short_prompt = make_prompt(5, 9, engine.vocabulary_size());
  const std::vector<float> expected_short = engine.feed(slot, short_prompt, 0);
  slot.truncate(0);
  const std::vector<float> expected_long = engine.feed(slot, long_prompt, 0);
  for (int round = 0; round < 2; ++round) {
    slot.truncate(0);
    CHECK(has_equal_bits(engine.feed(slot, short_prompt, 0), expected_short));
    slot.truncate(0);
    CHECK(has_equal_bits(engine.feed(slot, long_prompt, 7), expected_long));
  }
}

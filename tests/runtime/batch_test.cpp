// SPDX-License-Identifier: Apache-2.0
//
// What a batch accepts and refuses, and how failures of rows come back, over the stand-in model.

#include "lib/runtime/batch.h"

#include <cstring>
#include <string>
#include <thread>

#include "tests/runtime/fake_model.h"
#include "tests/support/catch.h"

using namespace colibri;
using namespace colibri::test;

namespace {

using Tokens = std::vector<int32_t>;

}  // namespace

TEST_CASE("rows stand behind the slot's length and behind its rows in the batch") {
  FakeEngine engine(2, 16);
  KvSlot &a = *engine.pool.take();
  KvSlot &b = *engine.pool.take();
  Batch batch(*engine.model, 8, 8);
  uint32_t row = 99;
  REQUIRE(batch.add(a, Tokens{1, 2}, LogitsMode::kNone, &row).is_ok());
  CHECK(row == 0);
  REQUIRE(batch.add(b, Tokens{5}, LogitsMode::kLast, &row).is_ok());
  CHECK(row == 2);
  REQUIRE(batch.add(a, Tokens{3}, LogitsMode::kAll, nullptr).is_ok());
  CHECK(batch.n_rows() == 4);
  CHECK(batch.free_rows() == 4);
  CHECK(batch.free_logits_rows() == 6);
  CHECK(batch.holds(a));
  CHECK(a.n_waiting_rows() == 3);
  REQUIRE(batch.decode().is_ok());
  CHECK(a.tokens() == Tokens{1, 2, 3});
  CHECK(b.tokens() == Tokens{5});
  CHECK_FALSE(batch.holds(a));
  const std::vector<ForwardRow> &rows = fake_controls().last_rows;
  REQUIRE(rows.size() == 4);
  CHECK(rows[3].position == 2);
  CHECK(batch.logits(0) == nullptr);
  CHECK(batch.logits(2) != nullptr);
  CHECK(batch.logits(3) != nullptr);

  batch.clear();
  REQUIRE(batch.add(a, Tokens{4}, LogitsMode::kLast, nullptr).is_ok());
  REQUIRE(batch.decode().is_ok());
  CHECK(fake_controls().last_rows[0].position == 3);
}

TEST_CASE("a refused addition adds nothing and says the numbers") {
  FakeEngine engine(2, 6, 64);
  KvSlot &slot = *engine.pool.take();
  Batch batch(*engine.model, 4, 2);
  const auto refusal = [&](const Tokens &tokens, LogitsMode mode, StatusCode code) {
    const uint32_t n_rows = batch.n_rows();
    const uint32_t n_logits = batch.free_logits_rows();
    const Status status = batch.add(slot, tokens, mode, nullptr);
    CHECK(status.code() == code);
    CHECK(batch.n_rows() == n_rows);
    CHECK(batch.free_logits_rows() == n_logits);
    return std::string(status.message());
  };
  CHECK(refusal({}, LogitsMode::kNone, StatusCode::kArgument).find("n_tokens is 0") !=
        std::string::npos);
  CHECK(refusal({0, 64}, LogitsMode::kNone, StatusCode::kArgument)
            .find("token 1 is 64; must be 0..63") != std::string::npos);
  refusal({-1}, LogitsMode::kNone, StatusCode::kArgument);
  CHECK(refusal({1, 1, 1, 1, 1}, LogitsMode::kNone, StatusCode::kCapacity).find("5 rows") !=
        std::string::npos);
  refusal({1, 1, 1}, LogitsMode::kAll, StatusCode::kCapacity);
  CHECK_FALSE(batch.holds(slot));

  slot.append(Tokens{1, 1, 1});
  REQUIRE(batch.add(slot, Tokens{1, 1}, LogitsMode::kNone, nullptr).is_ok());
  CHECK(refusal({1, 1}, LogitsMode::kNone, StatusCode::kContext)
            .find("3 positions and 2 rows waiting; 2 more exceed its capacity of 6") !=
        std::string::npos);
  REQUIRE(batch.decode().is_ok());
  CHECK(slot.length() == 5);
  refusal({1}, LogitsMode::kNone, StatusCode::kState);
}

TEST_CASE("a slot whose rows wait in one batch is busy for another") {
  FakeEngine engine(1, 8);
  KvSlot &slot = *engine.pool.take();
  Batch second(*engine.model, 4, 4);
  {
    Batch first(*engine.model, 4, 4);
    REQUIRE(first.add(slot, Tokens{1}, LogitsMode::kNone, nullptr).is_ok());
    CHECK(second.add(slot, Tokens{1}, LogitsMode::kNone, nullptr).code() == StatusCode::kBusy);
    first.clear();
    CHECK(slot.n_waiting_rows() == 0);
    REQUIRE(second.add(slot, Tokens{1}, LogitsMode::kNone, nullptr).is_ok());
    second.clear();
    REQUIRE(first.add(slot, Tokens{1}, LogitsMode::kNone, nullptr).is_ok());
  }
  // The first batch is gone and its rows with it.
  CHECK(second.add(slot, Tokens{1}, LogitsMode::kNone, nullptr).is_ok());
}

TEST_CASE("a slot claimed by another batch while the first one lets go stays claimed") {
  constexpr uint32_t kRows = 512;
  FakeEngine engine(1, kRows);
  KvSlot &slot = *engine.pool.take();
  Batch first(*engine.model, kRows, 1);
  Batch second(*engine.model, 1, 1);
  for (int round = 0; round < 100; ++round) {
    REQUIRE(first.add(slot, Tokens(kRows - 1, 1), LogitsMode::kNone, nullptr).is_ok());
    std::thread clearing([&] { first.clear(); });
    while (!second.add(slot, Tokens{2}, LogitsMode::kNone, nullptr).is_ok()) {
    }
    clearing.join();
    REQUIRE(second.holds(slot));
    REQUIRE(slot.n_waiting_rows() == 1);
    second.clear();
  }
}

TEST_CASE("decode wants rows and runs once") {
  FakeEngine engine(1, 8);
  KvSlot &slot = *engine.pool.take();
  Batch batch(*engine.model, 4, 4);
  CHECK(batch.decode().code() == StatusCode::kState);
  REQUIRE(batch.add(slot, Tokens{1}, LogitsMode::kLast, nullptr).is_ok());
  CHECK(batch.logits(0) == nullptr);
  REQUIRE(batch.decode().is_ok());
  CHECK(batch.decode().code() == StatusCode::kState);
  CHECK(slot.length() == 1);
}

TEST_CASE("a failed row ends its slot before it and leaves other slots complete") {
  FakeEngine engine(2, 16);
  KvSlot &bad = *engine.pool.take();
  KvSlot &good = *engine.pool.take();
  fake_controls().failing_token = 13;
  Batch batch(*engine.model, 8, 8);
  REQUIRE(batch.add(bad, Tokens{1, 13, 2}, LogitsMode::kAll, nullptr).is_ok());
  REQUIRE(batch.add(good, Tokens{1, 2}, LogitsMode::kLast, nullptr).is_ok());
  const Status status = batch.decode();
  CHECK(status.code() == StatusCode::kIo);
  CHECK(std::string(status.message()).find("2 of 5 rows failed; row 1: expert of token 13") !=
        std::string::npos);
  CHECK(bad.tokens() == Tokens{1});
  CHECK(good.tokens() == Tokens{1, 2});
  CHECK(batch.row_status(0).is_ok());
  CHECK(batch.row_status(1).code() == StatusCode::kIo);
  CHECK(batch.row_status(2).code() == StatusCode::kIo);
  CHECK(batch.logits(0) != nullptr);
  CHECK(batch.logits(2) == nullptr);
  CHECK(batch.wants_logits(2));

  // Batch and slot stay usable.
  fake_controls().failing_token = -1;
  batch.clear();
  REQUIRE(batch.add(bad, Tokens{13, 2}, LogitsMode::kLast, nullptr).is_ok());
  CHECK(batch.decode().is_ok());
  CHECK(bad.tokens() == Tokens{1, 13, 2});
}

TEST_CASE("a slot never grows over a gap") {
  FakeEngine engine(1, 16);
  KvSlot &slot = *engine.pool.take();
  fake_controls().failing_token = 13;
  fake_controls().forgets_failures = true;
  Batch batch(*engine.model, 8, 8);
  REQUIRE(batch.add(slot, Tokens{1, 13, 2}, LogitsMode::kLast, nullptr).is_ok());
  CHECK(batch.decode().code() == StatusCode::kIo);
  CHECK(slot.tokens() == Tokens{1});
}

TEST_CASE("logits that are not finite mark their row alone and keep its position") {
  FakeEngine engine(2, 16);
  KvSlot &bad = *engine.pool.take();
  KvSlot &good = *engine.pool.take();
  fake_controls().spoiled_token = 13;
  Batch batch(*engine.model, 8, 8);
  REQUIRE(batch.add(bad, Tokens{1, 13}, LogitsMode::kLast, nullptr).is_ok());
  REQUIRE(batch.add(good, Tokens{4}, LogitsMode::kLast, nullptr).is_ok());
  CHECK(batch.decode().is_ok());
  CHECK(batch.row_status(1).code() == StatusCode::kNonFinite);
  CHECK(std::string(batch.row_status(1).message()).find("position 1: the logit of token 3") !=
        std::string::npos);
  CHECK(batch.logits(1) == nullptr);
  CHECK(bad.length() == 2);
  CHECK(batch.row_status(2).is_ok());
  CHECK(batch.logits(2) != nullptr);
}

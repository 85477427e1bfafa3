// SPDX-License-Identifier: Apache-2.0

#include "lib/runtime/slot_table.h"

#include "tests/runtime/fake_model.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::test::make_fake_config;

namespace {

using Tokens = std::vector<int32_t>;

struct Table {
  explicit Table(uint32_t n_slots)
      : layout(make_fake_config(64), {40}), pool(layout, n_slots), table(pool, n_slots) {}

  // Gives each slot some tokens, in this order, and frees all.
  std::vector<KvSlot *> use(const std::vector<Tokens> &contents) {
    std::vector<KvSlot *> slots;
    for (const Tokens &tokens : contents) {
      KvSlot *slot = table.place(tokens, {}).slot;
      slot->truncate(0);
      slot->append(tokens);
      slots.push_back(slot);
    }
    for (KvSlot *slot : slots) table.release(slot);
    return slots;
  }

  KvLayout layout;
  KvPool pool;
  SlotTable table;
};

}  // namespace

TEST_CASE("a prompt gets the free slot with the longest common start") {
  Table table(3);
  const auto slots = table.use({{1, 2, 3}, {1, 2, 7, 8, 9}, {4, 4}});
  const SlotTable::Placement placement = table.table.place(Tokens{1, 2, 7, 8, 5}, {});
  CHECK(placement.slot == slots[1]);
  CHECK(placement.n_reused == 4);
  CHECK(placement.slot->tokens() == Tokens{1, 2, 7, 8});
}

TEST_CASE("the last token of a prompt is always computed") {
  Table table(1);
  table.use({{1, 2, 3, 4}});
  const SlotTable::Placement placement = table.table.place(Tokens{1, 2, 3}, {});
  CHECK(placement.n_reused == 2);
  CHECK(placement.slot->length() == 2);
}

TEST_CASE("equal starts go to the slot unused for longest") {
  Table table(3);
  const auto slots = table.use({{1, 2}, {1, 3}, {1, 4}});
  CHECK(table.table.place(Tokens{1, 9}, {}).slot == slots[0]);
  table.table.release(slots[0]);
  CHECK(table.table.place(Tokens{1, 9}, {}).slot == slots[1]);
}

TEST_CASE("a longer start in a running slot is copied") {
  Table table(2);
  const auto slots = table.use({{5, 6}, {1, 2, 3, 4}});
  const SlotTable::Placement running = table.table.place(Tokens{1, 2, 3, 4, 9}, {});
  REQUIRE(running.slot == slots[1]);
  const SlotTable::Placement placement = table.table.place(Tokens{1, 2, 3, 7}, {});
  CHECK(placement.slot == slots[0]);
  CHECK(placement.n_reused == 3);
  CHECK(placement.slot->tokens() == Tokens{1, 2, 3});
  CHECK(running.slot->tokens() == Tokens{1, 2, 3, 4});
}

TEST_CASE("a newcomer does not take the slot that another waiting prompt needs more") {
  Table table(2);
  const auto slots = table.use({{1, 2, 3, 4, 5, 6}, {9, 9}});
  const Tokens rival = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<TokenSpan> rivals = {rival};
  // A common start of two goes along as a copy.
  const SlotTable::Placement newcomer = table.table.place(Tokens{1, 2, 8}, rivals);
  CHECK(newcomer.slot == slots[1]);
  CHECK(newcomer.n_reused == 2);
  const SlotTable::Placement second = table.table.place(rival, {});
  CHECK(second.slot == slots[0]);
  CHECK(second.n_reused == 6);
}

TEST_CASE("slots go back to the pool at the end, also after a refusal") {
  const KvLayout layout(make_fake_config(64), {8});
  KvPool pool(layout, 3);
  {
    const SlotTable table(pool, 2);
    CHECK(pool.n_taken() == 2);
    try {
      const SlotTable second(pool, 2);
      FAIL("only one slot is left");
    } catch (const Error &error) {
      CHECK(error.status().code() == StatusCode::kCapacity);
    }
    CHECK(pool.n_taken() == 2);
  }
  CHECK(pool.n_taken() == 0);
}

// SPDX-License-Identifier: Apache-2.0

#include "lib/runtime/row_plan.h"

#include <vector>

#include "tests/support/catch.h"

using colibri::plan_rows;
using colibri::RowDemand;
using colibri::RowLimits;
using colibri::RowTotals;

namespace {

RowDemand decoder(uint64_t serial) {
  RowDemand demand;
  demand.serial = serial;
  demand.is_decoding = true;
  return demand;
}

RowDemand prompt(uint64_t serial, uint32_t n_left) {
  RowDemand demand;
  demand.serial = serial;
  demand.n_prompt_left = n_left;
  return demand;
}

std::vector<uint32_t> granted(const std::vector<RowDemand> &demands) {
  std::vector<uint32_t> rows;
  for (const RowDemand &demand : demands) rows.push_back(demand.n_rows);
  return rows;
}

using Rows = std::vector<uint32_t>;

}  // namespace

TEST_CASE("decode rows come first, then prompts in order of admission") {
  std::vector<RowDemand> demands = {prompt(1, 10), decoder(2), prompt(3, 10), decoder(4)};
  uint64_t turn = 0;
  const RowTotals totals = plan_rows({16, 16, 0, 8}, demands, &turn);
  CHECK(granted(demands) == Rows{10, 1, 4, 1});
  CHECK(totals.n_decode_rows == 2);
  CHECK(totals.n_prefill_rows == 14);
}

TEST_CASE("a prompt gets at most one chunk of each step") {
  std::vector<RowDemand> demands = {prompt(1, 10), prompt(2, 3)};
  uint64_t turn = 0;
  plan_rows({16, 4, 0, 8}, demands, &turn);
  CHECK(granted(demands) == Rows{4, 3});
}

TEST_CASE("the decode reserve bounds prompt rows only while requests decode") {
  std::vector<RowDemand> demands = {decoder(1), decoder(2), prompt(3, 50)};
  uint64_t turn = 0;
  plan_rows({16, 16, 10, 8}, demands, &turn);
  CHECK(granted(demands) == Rows{1, 1, 6});
  std::vector<RowDemand> alone = {prompt(3, 50)};
  plan_rows({16, 16, 10, 8}, alone, &turn);
  CHECK(granted(alone) == Rows{16});
}

TEST_CASE("the last token of a prompt waits for a row of logits") {
  std::vector<RowDemand> demands = {decoder(1), prompt(2, 3), prompt(3, 1), prompt(4, 5)};
  uint64_t turn = 0;
  const RowTotals totals = plan_rows({16, 16, 0, 2}, demands, &turn);
  CHECK(granted(demands) == Rows{1, 3, 0, 4});
  CHECK(totals.n_prefill_rows == 7);
}

TEST_CASE("decoding requests beyond the limits take turns") {
  for (const RowLimits limits : {RowLimits{3, 3, 0, 3}, RowLimits{8, 8, 0, 3}}) {
    uint64_t turn = 0;
    std::vector<int> served(7);
    for (int step = 1; step <= 7; ++step) {
      std::vector<RowDemand> demands;
      for (uint64_t serial = 1; serial <= 7; ++serial) demands.push_back(decoder(serial));
      const RowTotals totals = plan_rows(limits, demands, &turn);
      CHECK(totals.n_decode_rows == 3);
      for (size_t i = 0; i < 7; ++i) served[i] += static_cast<int>(demands[i].n_rows);
      // Nobody is ever two turns ahead of another.
      CHECK(*std::max_element(served.begin(), served.end()) <=
            *std::min_element(served.begin(), served.end()) + 1);
    }
    CHECK(served == std::vector<int>(7, 3));
  }
}

TEST_CASE("turns stay fair when requests join and leave") {
  uint64_t turn = 0;
  std::vector<uint64_t> serials = {1, 2, 3, 4, 5};
  std::vector<int> waits(100);
  for (uint64_t step = 0; step < 60; ++step) {
    std::vector<RowDemand> demands;
    for (const uint64_t serial : serials) demands.push_back(decoder(serial));
    plan_rows({2, 2, 0, 2}, demands, &turn);
    for (const RowDemand &demand : demands) {
      int &wait = waits[demand.serial];
      wait = demand.n_rows == 1 ? 0 : wait + 1;
      REQUIRE(wait <= 3);
    }
    // The oldest leaves and another joins every third step.
    if (step % 3 == 2) {
      serials.erase(serials.begin());
      serials.push_back(6 + step / 3);
    }
  }
}

TEST_CASE("nothing wanted is nothing granted") {
  std::vector<RowDemand> demands(2);
  uint64_t turn = 0;
  const RowTotals totals = plan_rows({4, 4, 0, 4}, demands, &turn);
  CHECK(totals.n_decode_rows + totals.n_prefill_rows == 0);
  CHECK(granted(demands) == Rows{0, 0});
}

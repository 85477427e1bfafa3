// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/batch.h.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

colibri_status add(colibri_batch *batch, colibri_kv_slot *slot, const std::vector<int32_t> &tokens,
                   int32_t mode = COLIBRI_LOGITS_LAST, uint32_t *first_row = nullptr) {
  return colibri_batch_add(batch, slot, tokens.data(), tokens.size(), mode, first_row, nullptr);
}

std::vector<float> logits_of(const colibri_batch *batch, uint32_t row) {
  const float *logits = nullptr;
  size_t n_logits = 0;
  REQUIRE(colibri_batch_logits(batch, row, &logits, &n_logits, nullptr) == COLIBRI_OK);
  return std::vector<float>(logits, logits + n_logits);
}

}  // namespace

TEST_CASE("a batch refuses calls in the wrong order") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const float *logits = nullptr;
  CHECK(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_E_STATE);  // no rows
  CHECK(add(batch.get(), slot.get(), {1, 2}) == COLIBRI_OK);
  CHECK(colibri_batch_row_count(batch.get()) == 2);
  CHECK(colibri_batch_row_status(batch.get(), 0, nullptr) == COLIBRI_E_STATE);  // not decoded
  CHECK(colibri_batch_logits(batch.get(), 1, &logits, nullptr, nullptr) == COLIBRI_E_STATE);
  CHECK(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_OK);
  CHECK(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_E_STATE);  // decoded
  CHECK(add(batch.get(), slot.get(), {3}) == COLIBRI_E_STATE);
  CHECK(colibri_batch_row_status(batch.get(), 1, nullptr) == COLIBRI_OK);
  CHECK(colibri_batch_row_status(batch.get(), 2, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_batch_logits(batch.get(), 0, &logits, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(colibri_batch_logits(batch.get(), 2, &logits, nullptr, nullptr) == COLIBRI_E_ARGUMENT);
  CHECK(logits == nullptr);
  CHECK(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  CHECK(colibri_batch_row_count(batch.get()) == 0);
  CHECK(add(batch.get(), slot.get(), {3}) == COLIBRI_OK);
}

TEST_CASE("rows beyond a limit are refused and nothing is added") {
  const Model model = open_tiny();  // 16 rows, 8 with logits, 64 positions
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  uint32_t first_row = 77;
  CHECK(add(batch.get(), slot.get(), std::vector<int32_t>(17, 1), COLIBRI_LOGITS_NONE,
            &first_row) == COLIBRI_E_CAPACITY);
  CHECK(add(batch.get(), slot.get(), std::vector<int32_t>(9, 1), COLIBRI_LOGITS_ALL, &first_row) ==
        COLIBRI_E_CAPACITY);
  CHECK(first_row == 77);
  CHECK(colibri_batch_row_count(batch.get()) == 0);
  CHECK(colibri_kv_slot_truncate(slot.get(), 0, nullptr) == COLIBRI_OK);  // no rows wait
  for (int i = 0; i < 4; ++i) decode(batch.get(), slot.get(), std::vector<int32_t>(15, 1));
  CHECK(colibri_kv_slot_length(slot.get()) == 60);
  CHECK(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  CHECK_THAT(message_of(COLIBRI_E_CONTEXT,
                        [&](colibri_error *error) {
                          const std::vector<int32_t> tokens(5, 1);
                          return colibri_batch_add(batch.get(), slot.get(), tokens.data(), 5,
                                                   COLIBRI_LOGITS_NONE, nullptr, error);
                        }),
             Contains("60") && Contains("5") && Contains("64"));
  CHECK(add(batch.get(), slot.get(), {1, 1, 1, 1}) == COLIBRI_OK);
  CHECK(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_OK);
  CHECK(colibri_kv_slot_length(slot.get()) == 64);
}

TEST_CASE("tokens outside the vocabulary and unknown logits modes are refused by name") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const auto message = [&](int32_t token, int32_t mode) {
    return message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return colibri_batch_add(batch.get(), slot.get(), &token, 1, mode, nullptr, error);
    });
  };
  CHECK_THAT(message(-1, 0), Contains("-1"));
  CHECK_THAT(message(2048, 0), Contains("2048") && Contains("2047"));
  CHECK_THAT(message(1, 3), Contains("logits_mode is 3"));
  CHECK_THAT(message(1, -1), Contains("logits_mode is -1"));
  CHECK(colibri_batch_row_count(batch.get()) == 0);
}

TEST_CASE("a row has the same bits alone, with mates, and in any order") {
  const Model model = open_tiny();
  const Slot first = make_slot(model.get());
  const Slot second = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> alone_first = decode(batch.get(), first.get(), {5, 6, 7});
  const std::vector<float> alone_second = decode(batch.get(), second.get(), {9, 8});
  for (const bool is_swapped : {false, true}) {
    REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
    REQUIRE(colibri_kv_slot_truncate(first.get(), 0, nullptr) == COLIBRI_OK);
    REQUIRE(colibri_kv_slot_truncate(second.get(), 0, nullptr) == COLIBRI_OK);
    uint32_t row_first = 0;
    uint32_t row_second = 0;
    if (is_swapped) REQUIRE(add(batch.get(), second.get(), {9, 8}, 1, &row_second) == COLIBRI_OK);
    REQUIRE(add(batch.get(), first.get(), {5, 6, 7}, 1, &row_first) == COLIBRI_OK);
    if (!is_swapped) REQUIRE(add(batch.get(), second.get(), {9, 8}, 1, &row_second) == COLIBRI_OK);
    REQUIRE(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_OK);
    CHECK(logits_of(batch.get(), row_first + 2) == alone_first);
    CHECK(logits_of(batch.get(), row_second + 1) == alone_second);
  }
}

TEST_CASE("rows of one slot may be added in several calls, and all may give logits") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> expected = decode(batch.get(), slot.get(), {5, 6, 7, 8});
  REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  REQUIRE(colibri_kv_slot_truncate(slot.get(), 0, nullptr) == COLIBRI_OK);
  uint32_t first_row = 77;
  REQUIRE(add(batch.get(), slot.get(), {5, 6}, COLIBRI_LOGITS_ALL, &first_row) == COLIBRI_OK);
  CHECK(first_row == 0);
  REQUIRE(add(batch.get(), slot.get(), {7, 8}, COLIBRI_LOGITS_ALL, &first_row) == COLIBRI_OK);
  CHECK(first_row == 2);
  REQUIRE(colibri_batch_decode(batch.get(), nullptr) == COLIBRI_OK);
  for (uint32_t row = 0; row < 4; ++row) CHECK(logits_of(batch.get(), row).size() == 2048);
  CHECK(logits_of(batch.get(), 3) == expected);
}

TEST_CASE("rows of a slot wait in one batch at a time") {
  colibri_model_options options = small_options();
  options.n_engines = 2;
  const Model model = open_model(tiny_model(), options);
  const Slot slot = make_slot(model.get());
  const Batch first = make_batch(model.get());
  const Batch second = make_batch(model.get());
  REQUIRE(add(first.get(), slot.get(), {1}) == COLIBRI_OK);
  CHECK(add(second.get(), slot.get(), {1}) == COLIBRI_E_BUSY);
  CHECK(colibri_batch_row_count(second.get()) == 0);
  REQUIRE(colibri_batch_clear(first.get(), nullptr) == COLIBRI_OK);
  CHECK(add(second.get(), slot.get(), {1}) == COLIBRI_OK);
}

TEST_CASE("a slot of another model is refused") {
  const Model model = open_tiny();
  const Model other = open_tiny();
  const Slot slot = make_slot(other.get());
  const Batch batch = make_batch(model.get());
  CHECK(add(batch.get(), slot.get(), {1}) == COLIBRI_E_ARGUMENT);
}

TEST_CASE("one engine more than planned is refused, and a destroyed one is free again") {
  const Model model = open_tiny();
  Batch batch = make_batch(model.get());
  colibri_batch *second = nullptr;
  colibri_scheduler *scheduler = nullptr;
  CHECK_THAT(message_of(COLIBRI_E_CAPACITY,
                        [&](colibri_error *error) {
                          return colibri_batch_create(model.get(), &second, error);
                        }),
             Contains("all 1 engines"));
  CHECK(colibri_scheduler_create(model.get(), nullptr, &scheduler, nullptr) == COLIBRI_E_CAPACITY);
  CHECK(second == nullptr);
  CHECK(scheduler == nullptr);
  batch.reset();
  CHECK(make_scheduler(model.get()) != nullptr);
}

TEST_CASE(
    "a file that is cut while the model is open fails the rows that need it and nothing else") {
  const ModelCopy copy(tiny_model(), "colibri_cut_while_open");
  colibri_model_options options = small_options();
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  REQUIRE(colibri_model_plan(copy.path().c_str(), &options, &plan, nullptr) == COLIBRI_OK);
  options.ram_budget_bytes = plan.minimum_bytes;
  const Model model = open_model(copy.path(), options);
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<float> expected = decode(batch.get(), slot.get(), {5, 6, 7, 8});
  REQUIRE(colibri_kv_slot_truncate(slot.get(), 2, nullptr) == COLIBRI_OK);
  REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);

  const std::filesystem::path shard = copy.file("model-00001-of-00001.safetensors");
  const std::filesystem::path whole = copy.file("whole");
  std::filesystem::copy_file(shard, whole);
  std::filesystem::resize_file(shard, 4096);
  REQUIRE(add(batch.get(), slot.get(), {7, 8}) == COLIBRI_OK);
  CHECK_THAT(
      message_of(COLIBRI_E_IO,
                 [&](colibri_error *error) { return colibri_batch_decode(batch.get(), error); }),
      Contains("model-00001-of-00001.safetensors"));
  CHECK(colibri_batch_row_status(batch.get(), 0, nullptr) == COLIBRI_E_IO);
  const float *logits = nullptr;
  CHECK(colibri_batch_logits(batch.get(), 1, &logits, nullptr, nullptr) == COLIBRI_E_STATE);
  CHECK(colibri_kv_slot_length(slot.get()) == 2);

  // The same file, whole again: model, slot and batch go on.
  std::ofstream(shard, std::ios::binary | std::ios::in)
      << std::ifstream(whole, std::ios::binary).rdbuf();
  REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  CHECK(decode(batch.get(), slot.get(), {7, 8}) == expected);
}

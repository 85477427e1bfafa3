// SPDX-License-Identifier: Apache-2.0
//
// The wrong call first: every exported function with NULL for every pointer, and every handle
// parameter with a handle of another type. tests/abi checks that no exported function is forgotten
// in this folder.

#include <cstring>
#include <string>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

// Aligned memory that is no handle.
struct Garbage {
  alignas(16) unsigned char bytes[256];
  explicit Garbage(int fill) { std::memset(bytes, fill, sizeof(bytes)); }
  template <typename T>
  T *as() {
    return reinterpret_cast<T *>(bytes);
  }
};

#define CHECK_HANDLE(call) CHECK((call) == COLIBRI_E_HANDLE)
#define CHECK_ARGUMENT(call) CHECK((call) == COLIBRI_E_ARGUMENT)

// Every function that takes a handle, with one that is not of its type.
struct WrongHandles {
  colibri_model *model;
  colibri_tokenizer *tokenizer;
  colibri_stream_decoder *decoder;
  colibri_kv_slot *slot;
  colibri_batch *batch;
  colibri_scheduler *scheduler;
};

void check_model_calls(colibri_model *model) {
  colibri_model_facts facts{};
  facts.struct_size = sizeof(facts);
  colibri_model_stats stats{};
  stats.struct_size = sizeof(stats);
  size_t count = 77;
  colibri_kv_slot *slot = reinterpret_cast<colibri_kv_slot *>(&facts);
  colibri_batch *batch = reinterpret_cast<colibri_batch *>(&facts);
  colibri_scheduler *scheduler = reinterpret_cast<colibri_scheduler *>(&facts);
  CHECK_HANDLE(colibri_model_get_facts(model, &facts, nullptr));
  CHECK_HANDLE(colibri_model_get_stats(model, &stats, nullptr));
  CHECK_HANDLE(colibri_model_describe(model, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_model_stop_ids(model, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_kv_slot_create(model, &slot, nullptr));
  CHECK_HANDLE(colibri_batch_create(model, &batch, nullptr));
  CHECK_HANDLE(colibri_scheduler_create(model, nullptr, &scheduler, nullptr));
  CHECK(colibri_model_tokenizer(model) == nullptr);
  CHECK(facts.width == 0);
  CHECK(stats.n_slots_in_use == 0);
  CHECK(count == 77);
  CHECK(slot == nullptr);
  CHECK(batch == nullptr);
  CHECK(scheduler == nullptr);
}

void check_tokenizer_calls(colibri_tokenizer *tokenizer) {
  size_t count = 77;
  int32_t id = 77;
  colibri_stream_decoder *decoder = reinterpret_cast<colibri_stream_decoder *>(&count);
  CHECK(colibri_tokenizer_size(tokenizer) == 0);
  CHECK_HANDLE(colibri_tokenizer_encode(tokenizer, "a", 1, 0, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_tokenizer_decode(tokenizer, &id, 1, 0, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_tokenizer_find(tokenizer, "a", &id, nullptr));
  CHECK_HANDLE(colibri_chat_encode(tokenizer, nullptr, 0, 0, nullptr, 0, &count, nullptr));
  const char *name = nullptr;
  CHECK_HANDLE(colibri_chat_layout(tokenizer, &name, nullptr));
  CHECK_HANDLE(colibri_tokenizer_prefix(tokenizer, nullptr, 0, &count, nullptr));
  CHECK(name == nullptr);
  CHECK_HANDLE(colibri_stream_decoder_create(tokenizer, 0, &decoder, nullptr));
  CHECK(count == 77);
  CHECK(id == 77);
  CHECK(decoder == nullptr);
}

void check_slot_calls(colibri_kv_slot *slot, colibri_batch *batch) {
  size_t count = 77;
  uint8_t blob[8] = {};
  int32_t id = 1;
  colibri_kv_slot *fork = reinterpret_cast<colibri_kv_slot *>(&count);
  CHECK(colibri_kv_slot_length(slot) == 0);
  CHECK(colibri_kv_slot_capacity(slot) == 0);
  CHECK_HANDLE(colibri_kv_slot_truncate(slot, 0, nullptr));
  uint32_t reusable = 77;
  CHECK_HANDLE(colibri_kv_slot_reusable(slot, 0, &reusable, nullptr));
  CHECK(reusable == 0);
  CHECK_HANDLE(colibri_kv_slot_fork(slot, 0, &fork, nullptr));
  CHECK_HANDLE(colibri_kv_slot_save(slot, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_kv_slot_restore(slot, blob, sizeof(blob), nullptr));
  CHECK_HANDLE(colibri_kv_slot_tokens(slot, nullptr, 0, &count, nullptr));
  CHECK_HANDLE(colibri_batch_add(batch, slot, &id, 1, 0, nullptr, nullptr));
  CHECK(count == 77);
  CHECK(fork == nullptr);
}

void check_batch_calls(colibri_batch *batch, colibri_kv_slot *slot) {
  int32_t id = 1;
  uint32_t row = 77;
  const float *logits = nullptr;
  CHECK(colibri_batch_row_count(batch) == 0);
  CHECK_HANDLE(colibri_batch_clear(batch, nullptr));
  CHECK_HANDLE(colibri_batch_add(batch, slot, &id, 1, 0, &row, nullptr));
  CHECK_HANDLE(colibri_batch_decode(batch, nullptr));
  CHECK_HANDLE(colibri_batch_row_status(batch, 0, nullptr));
  CHECK_HANDLE(colibri_batch_logits(batch, 0, &logits, nullptr, nullptr));
  CHECK(row == 77);
}

void check_scheduler_calls(colibri_scheduler *scheduler) {
  const std::vector<int32_t> prompt = {1};
  const colibri_request_options options = request_of(prompt, 1);
  colibri_request_id request = 77;
  size_t count = 77;
  colibri_event event{};
  colibri_scheduler_stats stats{};
  stats.struct_size = sizeof(stats);
  CHECK_HANDLE(colibri_scheduler_submit(scheduler, &options, &request, nullptr, nullptr));
  CHECK_HANDLE(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, nullptr));
  CHECK_HANDLE(colibri_scheduler_wake(scheduler, nullptr));
  CHECK_HANDLE(colibri_scheduler_next_events(scheduler, &event, sizeof(event), 1, &count, nullptr));
  CHECK_HANDLE(colibri_scheduler_stop(scheduler, 1, nullptr));
  CHECK_HANDLE(colibri_scheduler_cancel(scheduler, 1, nullptr));
  CHECK_HANDLE(colibri_scheduler_pause(scheduler, 1, nullptr));
  CHECK_HANDLE(colibri_scheduler_resume(scheduler, 1, nullptr));
  CHECK_HANDLE(colibri_scheduler_get_stats(scheduler, &stats, nullptr));
  CHECK(request == 77);
  CHECK(count == 77);
}

void check_decoder_calls(colibri_stream_decoder *decoder) {
  const char *text = nullptr;
  size_t bytes = 77;
  CHECK_HANDLE(colibri_stream_decoder_push(decoder, 1, &text, &bytes, nullptr));
  CHECK_HANDLE(colibri_stream_decoder_flush(decoder, &text, &bytes, nullptr));
  CHECK(bytes == 77);
}

// All calls with handles of wrong types; the right handles of the other parameters come from
// `right`.
void check_all(const WrongHandles &wrong, const WrongHandles &right) {
  check_model_calls(wrong.model);
  check_tokenizer_calls(wrong.tokenizer);
  check_slot_calls(wrong.slot, right.batch);
  check_batch_calls(wrong.batch, right.slot);
  check_scheduler_calls(wrong.scheduler);
  check_decoder_calls(wrong.decoder);
}

// Only the functions that end an object: they accept NULL.
void check_ends(const WrongHandles &wrong, colibri_status expected) {
  CHECK(colibri_model_close(wrong.model, nullptr) == expected);
  CHECK(colibri_tokenizer_close(wrong.tokenizer, nullptr) == expected);
  CHECK(colibri_stream_decoder_destroy(wrong.decoder, nullptr) == expected);
  CHECK(colibri_kv_slot_destroy(wrong.slot, nullptr) == expected);
  CHECK(colibri_batch_destroy(wrong.batch, nullptr) == expected);
  CHECK(colibri_scheduler_destroy(wrong.scheduler, nullptr) == expected);
}

// One of everything.
class AllHandles {
 public:
  AllHandles() {
    colibri_model_options options = small_options();
    options.n_engines = 2;
    model = open_model(tiny_model(), options);
    slot = make_slot(model.get());
    batch = make_batch(model.get());
    scheduler = make_scheduler(model.get());
    colibri_tokenizer *opened = nullptr;
    REQUIRE(colibri_tokenizer_open(tiny_model().c_str(), &opened, nullptr) == COLIBRI_OK);
    tokenizer.reset(opened);
    colibri_stream_decoder *made = nullptr;
    REQUIRE(colibri_stream_decoder_create(opened, 0, &made, nullptr) == COLIBRI_OK);
    decoder.reset(made);
  }
  WrongHandles get() const {
    return {model.get(), tokenizer.get(), decoder.get(), slot.get(), batch.get(), scheduler.get()};
  }

  Model model;
  TokenizerHandle tokenizer;
  Decoder decoder;
  Slot slot;
  Batch batch;
  Scheduler scheduler;
};

}  // namespace

TEST_CASE("every function refuses a NULL handle and every end accepts one") {
  const AllHandles all;
  check_all({}, all.get());
  check_ends({}, COLIBRI_OK);
}

TEST_CASE("every function refuses memory that is no handle") {
  const AllHandles all;
  for (const int fill : {0, 0xff, 0xc0}) {
    Garbage garbage(fill);
    const WrongHandles wrong = {
        garbage.as<colibri_model>(),          garbage.as<colibri_tokenizer>(),
        garbage.as<colibri_stream_decoder>(), garbage.as<colibri_kv_slot>(),
        garbage.as<colibri_batch>(),          garbage.as<colibri_scheduler>()};
    check_all(wrong, all.get());
    check_ends(wrong, COLIBRI_E_HANDLE);
  }
}

TEST_CASE("every function refuses a handle of another type") {
  const AllHandles all;
  const WrongHandles right = all.get();
  // Each parameter gets the handle of the next type.
  const WrongHandles wrong = {reinterpret_cast<colibri_model *>(right.tokenizer),
                              reinterpret_cast<colibri_tokenizer *>(right.decoder),
                              reinterpret_cast<colibri_stream_decoder *>(right.slot),
                              reinterpret_cast<colibri_kv_slot *>(right.batch),
                              reinterpret_cast<colibri_batch *>(right.scheduler),
                              reinterpret_cast<colibri_scheduler *>(right.model)};
  check_all(wrong, right);
  check_ends(wrong, COLIBRI_E_HANDLE);
  // Nothing was harmed.
  CHECK(generate(right.scheduler, {1, 2, 3}, 2).finish != COLIBRI_FINISH_FAILED);
}

TEST_CASE("NULL for every other pointer of the model functions is refused by name") {
  const Model model = open_tiny();
  const std::string path = tiny_model();
  size_t length = 0;
  colibri_plan plan{};
  plan.struct_size = sizeof(plan);
  colibri_model *opened = reinterpret_cast<colibri_model *>(&plan);
  CHECK_ARGUMENT(colibri_model_plan(nullptr, nullptr, &plan, nullptr));
  CHECK_ARGUMENT(colibri_model_plan(path.c_str(), nullptr, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_plan_json(nullptr, nullptr, nullptr, 0, &length, nullptr));
  CHECK_ARGUMENT(colibri_model_plan_json(path.c_str(), nullptr, nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_plan_json(path.c_str(), nullptr, nullptr, 9, &length, nullptr));
  CHECK_ARGUMENT(colibri_snapshot_describe(nullptr, nullptr, 0, &length, nullptr));
  CHECK_ARGUMENT(colibri_snapshot_describe(path.c_str(), nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_snapshot_describe(path.c_str(), nullptr, 9, &length, nullptr));
  CHECK_ARGUMENT(colibri_model_open(nullptr, nullptr, &opened, nullptr));
  CHECK(opened == nullptr);
  CHECK_ARGUMENT(colibri_model_open(path.c_str(), nullptr, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_get_facts(model.get(), nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_describe(model.get(), nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_describe(model.get(), nullptr, 9, &length, nullptr));
  CHECK_ARGUMENT(colibri_model_stop_ids(model.get(), nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_model_stop_ids(model.get(), nullptr, 9, &length, nullptr));
  CHECK_ARGUMENT(colibri_model_get_stats(model.get(), nullptr, nullptr));
  colibri_model_options_init(nullptr, sizeof(colibri_model_options));
  CHECK(message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
          return colibri_model_open(nullptr, nullptr, &opened, error);
        }) == "path is NULL");
}

TEST_CASE("NULL for every pointer of the measuring functions is refused") {
  const uint32_t rows[] = {1};
  colibri_machine_figures machine{};
  machine.struct_size = sizeof machine;
  colibri_kernel_figures figures[1] = {};
  const size_t size = sizeof figures[0];
  CHECK_ARGUMENT(colibri_measure_kernels(nullptr, nullptr, 1, &machine, figures, size, nullptr));
  CHECK_ARGUMENT(colibri_measure_kernels(nullptr, rows, 1, nullptr, figures, size, nullptr));
  CHECK_ARGUMENT(colibri_measure_kernels(nullptr, rows, 1, &machine, nullptr, size, nullptr));
  CHECK_ARGUMENT(colibri_measure_read_bandwidth(1, 0, nullptr, nullptr));
  colibri_measure_options_init(nullptr, sizeof(colibri_measure_options));
}

TEST_CASE("NULL for every other pointer of the tokenizer functions is refused") {
  const AllHandles all;
  colibri_tokenizer *tokenizer = all.tokenizer.get();
  size_t count = 0;
  int32_t id = 0;
  const char *text = nullptr;
  CHECK_ARGUMENT(colibri_tokenizer_open(nullptr, &tokenizer, nullptr));
  CHECK(tokenizer == nullptr);
  tokenizer = all.tokenizer.get();
  CHECK_ARGUMENT(colibri_tokenizer_open("x", nullptr, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_encode(tokenizer, nullptr, 1, 0, nullptr, 0, &count, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_encode(tokenizer, "a", 1, 0, nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_encode(tokenizer, "a", 1, 0, nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_decode(tokenizer, nullptr, 1, 0, nullptr, 0, &count, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_decode(tokenizer, &id, 1, 0, nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_decode(tokenizer, &id, 1, 0, nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_find(tokenizer, nullptr, &id, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_find(tokenizer, "a", nullptr, nullptr));
  CHECK_ARGUMENT(colibri_chat_layout(tokenizer, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_prefix(tokenizer, nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_tokenizer_prefix(tokenizer, nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_chat_encode(tokenizer, nullptr, 1, 0, nullptr, 0, &count, nullptr));
  CHECK_ARGUMENT(colibri_chat_encode(tokenizer, nullptr, 0, 0, nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_chat_encode(tokenizer, nullptr, 0, 0, nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_stream_decoder_create(tokenizer, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_stream_decoder_push(all.decoder.get(), 1, nullptr, &count, nullptr));
  CHECK_ARGUMENT(colibri_stream_decoder_push(all.decoder.get(), 1, &text, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_stream_decoder_flush(all.decoder.get(), nullptr, &count, nullptr));
  CHECK_ARGUMENT(colibri_stream_decoder_flush(all.decoder.get(), &text, nullptr, nullptr));
}

TEST_CASE("NULL for every other pointer of slot, batch and scheduler functions is refused") {
  const AllHandles all;
  size_t count = 0;
  int32_t id = 1;
  uint8_t blob[1] = {};
  CHECK_ARGUMENT(colibri_kv_slot_create(all.model.get(), nullptr, nullptr));
  CHECK_ARGUMENT(colibri_kv_slot_fork(all.slot.get(), 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_kv_slot_save(all.slot.get(), nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_kv_slot_save(all.slot.get(), nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_kv_slot_restore(all.slot.get(), nullptr, 1, nullptr));
  CHECK(colibri_kv_slot_restore(all.slot.get(), blob, 0, nullptr) == COLIBRI_E_FORMAT);
  CHECK_ARGUMENT(colibri_kv_slot_tokens(all.slot.get(), nullptr, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_kv_slot_tokens(all.slot.get(), nullptr, 9, &count, nullptr));
  CHECK_ARGUMENT(colibri_batch_create(all.model.get(), nullptr, nullptr));
  CHECK_ARGUMENT(
      colibri_batch_add(all.batch.get(), all.slot.get(), nullptr, 1, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_batch_add(all.batch.get(), all.slot.get(), &id, 0, 0, nullptr, nullptr));
  CHECK_HANDLE(colibri_batch_add(all.batch.get(), nullptr, &id, 1, 0, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_batch_logits(all.batch.get(), 0, nullptr, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_scheduler_create(all.model.get(), nullptr, nullptr, nullptr));
  colibri_request_id request = 77;
  const std::vector<int32_t> prompt = {1};
  const colibri_request_options options = request_of(prompt, 1);
  CHECK_ARGUMENT(
      colibri_scheduler_submit(all.scheduler.get(), nullptr, &request, nullptr, nullptr));
  CHECK(request == 77);
  CHECK_ARGUMENT(
      colibri_scheduler_submit(all.scheduler.get(), &options, nullptr, nullptr, nullptr));
  CHECK_ARGUMENT(colibri_scheduler_next_events(all.scheduler.get(), nullptr, sizeof(colibri_event),
                                               1, &count, nullptr));
  colibri_event event{};
  CHECK_ARGUMENT(colibri_scheduler_next_events(all.scheduler.get(), &event, sizeof(event), 1,
                                               nullptr, nullptr));
  CHECK_ARGUMENT(colibri_scheduler_get_stats(all.scheduler.get(), nullptr, nullptr));
  colibri_scheduler_options_init(nullptr, sizeof(colibri_scheduler_options));
  colibri_request_options_init(nullptr, sizeof(colibri_request_options));
  colibri_sampler_init(nullptr, sizeof(colibri_sampler));
}

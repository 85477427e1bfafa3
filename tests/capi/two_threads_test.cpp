// SPDX-License-Identifier: Apache-2.0
//
// Every function from two threads on the same handles: a result or COLIBRI_E_BUSY (and what the
// moment explains, such as a full pool), never another code and never corruption.

#include <algorithm>
#include <initializer_list>
#include <thread>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;

namespace {

using Call = std::function<colibri_status()>;

constexpr int kRounds = 40;

// Runs all calls in turn in each of two threads; every status must be COLIBRI_OK or be allowed.
void run_in_two_threads(const std::vector<Call> &calls, std::vector<colibri_status> allowed) {
  allowed.push_back(COLIBRI_OK);
  std::vector<colibri_status> unexpected[2];
  const auto work = [&](size_t thread) {
    for (int round = 0; round < kRounds; ++round) {
      for (size_t i = 0; i < calls.size(); ++i) {
        const colibri_status status = calls[(i + thread) % calls.size()]();
        if (std::count(allowed.begin(), allowed.end(), status) == 0) {
          unexpected[thread].push_back(status);
        }
      }
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  CHECK(unexpected[0].empty());
  CHECK(unexpected[1].empty());
}

}  // namespace

TEST_CASE("facts, plans and descriptions are asked by two threads at once") {
  const Model model = open_tiny();
  const std::string path = tiny_model();
  const colibri_model_options options = small_options();
  run_in_two_threads(
      {[&] {
         colibri_model_facts facts{};
         facts.struct_size = sizeof facts;
         return colibri_model_get_facts(model.get(), &facts, nullptr);
       },
       [&] {
         colibri_model_stats stats{};
         stats.struct_size = sizeof stats;
         return colibri_model_get_stats(model.get(), &stats, nullptr);
       },
       [&] {
         colibri_plan plan{};
         plan.struct_size = sizeof plan;
         return colibri_model_plan(path.c_str(), &options, &plan, nullptr);
       },
       [&] {
         size_t length = 0;
         return colibri_model_plan_json(path.c_str(), &options, nullptr, 0, &length, nullptr);
       },
       [&] {
         size_t length = 0;
         return colibri_model_describe(model.get(), nullptr, 0, &length, nullptr);
       },
       [&] {
         size_t length = 0;
         return colibri_snapshot_describe(path.c_str(), nullptr, 0, &length, nullptr);
       },
       [&] {
         size_t n_ids = 0;
         return colibri_model_stop_ids(model.get(), nullptr, 0, &n_ids, nullptr);
       }},
      {});
}

TEST_CASE("two threads measure at once") {
  colibri_measure_options options;
  colibri_measure_options_init(&options, sizeof options);
  options.columns = options.depth = 64;
  options.min_runs = 1;
  options.memory_bytes = 1 << 20;
  run_in_two_threads({[&] {
                        const uint32_t rows[] = {1};
                        colibri_machine_figures machine{};
                        machine.struct_size = sizeof machine;
                        colibri_kernel_figures figures[1];
                        return colibri_measure_kernels(&options, rows, 1, &machine, figures,
                                                       sizeof figures[0], nullptr);
                      },
                      [&] {
                        double read_gbps = 0;
                        return colibri_measure_read_bandwidth(1, 1 << 20, &read_gbps, nullptr);
                      }},
                     {});
}

TEST_CASE("two threads open and close models of one folder") {
  const std::string path = tiny_model();
  const colibri_model_options options = small_options();
  run_in_two_threads({[&] {
                       colibri_model *model = nullptr;
                       const colibri_status status =
                           colibri_model_open(path.c_str(), &options, &model, nullptr);
                       return status == COLIBRI_OK ? colibri_model_close(model, nullptr) : status;
                     }},
                     {});
}

TEST_CASE("one tokenizer serves two threads, one decoder one of them at a time") {
  const Model model = open_tiny();
  const colibri_tokenizer *tokenizer = colibri_model_tokenizer(model.get());
  colibri_stream_decoder *created = nullptr;
  REQUIRE(colibri_stream_decoder_create(tokenizer, 1, &created, nullptr) == COLIBRI_OK);
  const Decoder decoder(created);
  const char text[] = "Once upon a time";
  run_in_two_threads(
      {[&] {
         size_t n_ids = 0;
         return colibri_tokenizer_encode(tokenizer, text, sizeof text - 1, COLIBRI_CONTROL_PLAIN,
                                         nullptr, 0, &n_ids, nullptr);
       },
       [&] {
         const int32_t ids[] = {411, 426};
         size_t n_bytes = 0;
         return colibri_tokenizer_decode(tokenizer, ids, 2, 0, nullptr, 0, &n_bytes, nullptr);
       },
       [&] {
         int32_t id = 0;
         return colibri_tokenizer_find(tokenizer, "<|user|>", &id, nullptr);
       },
       [&] {
         const char *name = nullptr;
         return colibri_chat_layout(tokenizer, &name, nullptr);
       },
       [&] {
         size_t n_ids = 0;
         return colibri_tokenizer_prefix(tokenizer, nullptr, 0, &n_ids, nullptr);
       },
       [&] {
         colibri_chat_message message{};
         message.struct_size = sizeof message;
         message.role = COLIBRI_ROLE_USER;
         message.text = text;
         size_t n_ids = 0;
         return colibri_chat_encode(tokenizer, &message, 1, 0, nullptr, 0, &n_ids, nullptr);
       },
       [&] {
         colibri_stream_decoder *own = nullptr;
         const colibri_status status = colibri_stream_decoder_create(tokenizer, 0, &own, nullptr);
         return status == COLIBRI_OK ? colibri_stream_decoder_destroy(own, nullptr) : status;
       },
       [&] {
         const char *piece = nullptr;
         size_t n_bytes = 0;
         return colibri_stream_decoder_push(decoder.get(), 411, &piece, &n_bytes, nullptr);
       },
       [&] {
         const char *piece = nullptr;
         size_t n_bytes = 0;
         return colibri_stream_decoder_flush(decoder.get(), &piece, &n_bytes, nullptr);
       }},
      {COLIBRI_E_BUSY});
}

TEST_CASE("one slot and one batch are used by two threads") {
  const Model model = open_tiny();
  const Slot slot = make_slot(model.get());
  const Batch batch = make_batch(model.get());
  const std::vector<int32_t> prompt = {1, 2, 3, 4};
  decode(batch.get(), slot.get(), prompt);
  size_t blob_bytes = 0;
  REQUIRE(colibri_kv_slot_save(slot.get(), nullptr, 0, &blob_bytes, nullptr) == COLIBRI_OK);
  std::vector<uint8_t> saved(blob_bytes);
  REQUIRE(colibri_kv_slot_save(slot.get(), saved.data(), saved.size(), &blob_bytes, nullptr) ==
          COLIBRI_OK);
  // Other calls change lengths and batches meanwhile, so "does not fit the moment" is right too.
  run_in_two_threads(
      {[&] {
         size_t n_bytes = 0;
         return colibri_kv_slot_save(slot.get(), nullptr, 0, &n_bytes, nullptr);
       },
       [&] { return colibri_kv_slot_restore(slot.get(), saved.data(), saved.size(), nullptr); },
       [&] {
         size_t n_ids = 0;
         return colibri_kv_slot_tokens(slot.get(), nullptr, 0, &n_ids, nullptr);
       },
       [&] { return colibri_kv_slot_truncate(slot.get(), 2, nullptr); },
       [&] {
         colibri_kv_slot *fork = nullptr;
         const colibri_status status = colibri_kv_slot_fork(slot.get(), 1, &fork, nullptr);
         return status == COLIBRI_OK ? colibri_kv_slot_destroy(fork, nullptr) : status;
       },
       [&] { return colibri_batch_clear(batch.get(), nullptr); },
       [&] {
         return colibri_batch_add(batch.get(), slot.get(), prompt.data(), 1, COLIBRI_LOGITS_LAST,
                                  nullptr, nullptr);
       },
       [&] { return colibri_batch_decode(batch.get(), nullptr); },
       [&] { return colibri_batch_row_status(batch.get(), 0, nullptr); },
       [&] {
         const float *logits = nullptr;
         return colibri_batch_logits(batch.get(), 0, &logits, nullptr, nullptr);
       }},
      {COLIBRI_E_BUSY, COLIBRI_E_STATE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY});
  // Both are sound afterwards.
  REQUIRE(colibri_batch_clear(batch.get(), nullptr) == COLIBRI_OK);
  REQUIRE(colibri_kv_slot_truncate(slot.get(), 0, nullptr) == COLIBRI_OK);
  CHECK(decode(batch.get(), slot.get(), prompt).size() > 0);
}

TEST_CASE("one scheduler is used by two threads") {
  const Model model = open_tiny();
  const Scheduler scheduler = make_scheduler(model.get());
  const std::vector<int32_t> prompt = {1, 2, 3};
  const colibri_request_options options = request_of(prompt, 2);
  std::vector<Call> calls = {
      [&] {
        colibri_request_id request = 0;
        return colibri_scheduler_submit(scheduler.get(), &options, &request, nullptr, nullptr);
      },
      [&] {
        return colibri_scheduler_step(scheduler.get(), COLIBRI_STEP_NOWAIT, nullptr, nullptr);
      },
      [&] {
        colibri_event events[16];
        size_t n_events = 0;
        return colibri_scheduler_next_events(scheduler.get(), events, sizeof events[0], 16,
                                             &n_events, nullptr);
      },
      [&] {
        colibri_scheduler_stats stats{};
        stats.struct_size = sizeof stats;
        return colibri_scheduler_get_stats(scheduler.get(), &stats, nullptr);
      },
      [&] { return colibri_scheduler_wake(scheduler.get(), nullptr); }};
  for (const auto wish : {colibri_scheduler_stop, colibri_scheduler_cancel, colibri_scheduler_pause,
                          colibri_scheduler_resume}) {
    calls.push_back([&scheduler, wish] { return wish(scheduler.get(), 3, nullptr); });
  }
  run_in_two_threads(calls, {COLIBRI_E_BUSY, COLIBRI_E_NOT_FOUND, COLIBRI_E_CAPACITY});
  const Outcome outcome = generate(scheduler.get(), prompt, 2);
  CHECK(outcome.tokens.size() == 2);
}

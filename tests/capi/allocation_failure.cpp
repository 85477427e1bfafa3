// SPDX-License-Identifier: Apache-2.0
//
// A program in which one allocation after the other is refused over a whole life of a model: open,
// encode, submit, step, save, close. Every call must end in success or COLIBRI_E_MEMORY, and the
// life after a refusal must be possible. Exit status 0: it was, for every refused call up to the
// last one that a life makes.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "colibri/colibri.h"
#include "tests/capi/counted_allocator.h"

namespace {

uint64_t n_refusals = 0;  // calls that said there was no memory
int n_failures = 0;

// True if the call succeeded. Only memory may fail.
bool succeeds(colibri_status status, const char *call, const colibri_error &error) {
  if (status == COLIBRI_OK) return true;
  // The C library also allocates, and then it is a read that fails for lack of memory.
  const bool has_read_failed =
      status == COLIBRI_E_IO && std::strstr(error.message, "errno 12") != nullptr;
  if (status == COLIBRI_E_MEMORY || has_read_failed) {
    ++n_refusals;
    return false;
  }
  ++n_failures;
  std::fprintf(stderr, "refused call %" PRIu64 ": %s gives %s: %s\n",
               counted_allocator::refused_call.load(), call, colibri_status_name(status),
               error.message);
  return false;
}

// Ends must succeed whatever memory there is.
void end(colibri_status status, const char *call) {
  if (status == COLIBRI_OK) return;
  ++n_failures;
  std::fprintf(stderr, "refused call %" PRIu64 ": %s gives %s\n",
               counted_allocator::refused_call.load(), call, colibri_status_name(status));
}

void use_scheduler(colibri_model *model, colibri_error &error) {
  colibri_scheduler *scheduler = nullptr;
  if (!succeeds(colibri_scheduler_create(model, nullptr, &scheduler, &error), "create", error))
    return;
  int32_t prompt[16];
  size_t n_prompt = 0;
  const char *text = "Once upon";
  const char *stop_string = "never";
  bool is_alive =
      succeeds(colibri_tokenizer_encode(colibri_model_tokenizer(model), text, std::strlen(text),
                                        COLIBRI_CONTROL_PLAIN, prompt, 16, &n_prompt, &error),
               "encode", error);
  colibri_request_options options;
  colibri_request_options_init(&options, sizeof(options));
  options.prompt_ids = prompt;
  options.n_prompt_ids = n_prompt;
  options.max_tokens = 3;
  options.stop_strings = &stop_string;
  options.n_stop_strings = 1;
  colibri_request_id request = 0;
  is_alive =
      is_alive && succeeds(colibri_scheduler_submit(scheduler, &options, &request, nullptr, &error),
                           "submit", error);
  for (int step = 0; is_alive && step < 8; ++step) {
    succeeds(colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, nullptr, &error), "step",
             error);
    colibri_event events[8];
    size_t n_events = 0;
    succeeds(
        colibri_scheduler_next_events(scheduler, events, sizeof(events[0]), 8, &n_events, &error),
        "next_events", error);
    for (size_t i = 0; i < n_events; ++i) {
      if (events[i].kind == COLIBRI_EVENT_FINISHED) is_alive = false;
    }
  }
  end(colibri_scheduler_destroy(scheduler, nullptr), "destroy of the scheduler");
}

void use_batch(colibri_model *model, colibri_error &error) {
  colibri_batch *batch = nullptr;
  colibri_kv_slot *slot = nullptr;
  colibri_kv_slot *fork = nullptr;
  const int32_t tokens[] = {1, 2, 3};
  static uint8_t blob[1 << 20];
  size_t n_bytes = 0;
  if (succeeds(colibri_batch_create(model, &batch, &error), "create", error) &&
      succeeds(colibri_kv_slot_create(model, &slot, &error), "slot", error) &&
      succeeds(colibri_batch_add(batch, slot, tokens, 3, COLIBRI_LOGITS_LAST, nullptr, &error),
               "add", error) &&
      succeeds(colibri_batch_decode(batch, &error), "decode", error) &&
      succeeds(colibri_kv_slot_fork(slot, 2, &fork, &error), "fork", error) &&
      succeeds(colibri_kv_slot_save(slot, blob, sizeof(blob), &n_bytes, &error), "save", error)) {
    succeeds(colibri_kv_slot_restore(fork, blob, n_bytes, &error), "restore", error);
  }
  end(colibri_batch_destroy(batch, nullptr), "destroy of the batch");
  end(colibri_kv_slot_destroy(fork, nullptr), "destroy of the fork");
  end(colibri_kv_slot_destroy(slot, nullptr), "destroy of the slot");
}

void live(const char *path) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model_options options;
  colibri_model_options_init(&options, sizeof(options));
  options.n_threads = 1;
  options.n_slots = 2;
  options.context_tokens = 32;
  options.max_rows = 8;
  options.ram_budget_bytes = uint64_t{1} << 30;
  colibri_model *model = nullptr;
  if (!succeeds(colibri_model_open(path, &options, &model, &error), "open", error)) return;
  use_scheduler(model, error);
  use_batch(model, error);
  end(colibri_model_close(model, nullptr), "close");
}

uint64_t live_counted(const char *path, uint64_t refused_call) {
  counted_allocator::refused_call = refused_call;
  counted_allocator::n_calls = 0;
  counted_allocator::is_armed = true;
  live(path);
  counted_allocator::is_armed = false;
  return counted_allocator::n_calls;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const uint64_t n_lives = std::strtoull(argv[2], nullptr, 10);
  live_counted(argv[1], UINT64_MAX);  // what is made once in a process
  const uint64_t n_calls = live_counted(argv[1], UINT64_MAX);
  if (n_calls < 100 || n_refusals != 0 || n_failures != 0) return 3;
  const uint64_t stride = std::max<uint64_t>(n_calls / n_lives, 1);
  uint64_t n_tried = 0;
  for (uint64_t call = 0; call < n_calls; call += stride, ++n_tried) live_counted(argv[1], call);
  const uint64_t refused = n_refusals;
  live_counted(argv[1], UINT64_MAX);
  std::printf("%" PRIu64 " lives of %" PRIu64 " allocations, %" PRIu64
              " ended for lack of memory\n",
              n_tried, n_calls, refused);
  // Some refusals are survived without a trace; most cannot be.
  return n_failures == 0 && n_refusals == refused && refused * 2 > n_tried ? 0 : 1;
}

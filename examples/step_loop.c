/* SPDX-License-Identifier: Apache-2.0
 *
 * Several requests at once: the host submits them, steps the scheduler, and reads events until all
 * have ended.
 *
 *     step_loop FOLDER
 */
#include <stdio.h>
#include <string.h>

#include "colibri/colibri.h"

#define N_REQUESTS 3
#define N_EVENTS 16

static const char *const kQuestions[N_REQUESTS] = {"Who are you?", "What does the cow say?",
                                                   "Tell me a story about a fox."};
static char answers[N_REQUESTS][4096];

static colibri_status submit(colibri_scheduler *scheduler, const colibri_tokenizer *tokenizer,
                             uint64_t number, colibri_error *error) {
  colibri_chat_message message = {sizeof message, COLIBRI_ROLE_USER, kQuestions[number]};
  colibri_request_options options;
  colibri_request_id request = 0;
  int32_t ids[64];
  size_t n_ids = 0;
  colibri_status status = colibri_chat_encode(tokenizer, &message, 1, 0, ids, 64, &n_ids, error);
  if (status != COLIBRI_OK) return status;
  colibri_request_options_init(&options, sizeof options);
  options.prompt_ids = ids;
  options.n_prompt_ids = n_ids;
  options.max_tokens = 100;
  options.user_data = number; /* comes back in every event of the request */
  return colibri_scheduler_submit(scheduler, &options, &request, NULL, error);
}

static void take_event(const colibri_event *event) {
  char *answer = answers[event->user_data];
  const size_t length = strlen(answer);
  if (event->text != NULL && length + event->text_bytes < sizeof answers[0]) {
    memcpy(answer + length, event->text, event->text_bytes);
  }
}

/* Steps until no request is active or waiting. */
static colibri_status run_all(colibri_scheduler *scheduler, colibri_error *error) {
  colibri_step_result step;
  do {
    colibri_event events[N_EVENTS];
    size_t n_events = 0;
    step.struct_size = sizeof step;
    colibri_status status = colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, &step, error);
    if (status != COLIBRI_OK) return status;
    do {
      status = colibri_scheduler_next_events(scheduler, events, sizeof events[0], N_EVENTS,
                                             &n_events, error);
      if (status != COLIBRI_OK) return status;
      for (size_t i = 0; i < n_events; ++i) take_event(&events[i]);
    } while (n_events == N_EVENTS);
  } while (step.n_active + step.n_queued > 0);
  return COLIBRI_OK;
}

static int fail(const colibri_error *error) {
  fprintf(stderr, "step_loop: %s\n", error->message);
  return 1;
}

int main(int argc, char **argv) {
  colibri_model *model = NULL;
  colibri_scheduler *scheduler = NULL;
  colibri_model_options options;
  colibri_error error = COLIBRI_ERROR_INIT;
  if (argc != 2) {
    fputs("usage: step_loop FOLDER\n", stderr);
    return 2;
  }
  colibri_model_options_init(&options, sizeof options);
  options.n_slots = 2; /* one request waits until a slot is free */
  options.context_tokens = 256;
  if (colibri_model_open(argv[1], &options, &model, &error) != COLIBRI_OK) return fail(&error);
  if (colibri_scheduler_create(model, NULL, &scheduler, &error) != COLIBRI_OK) return fail(&error);
  for (uint64_t number = 0; number < N_REQUESTS; ++number) {
    if (submit(scheduler, colibri_model_tokenizer(model), number, &error) != COLIBRI_OK)
      return fail(&error);
  }
  if (run_all(scheduler, &error) != COLIBRI_OK) return fail(&error);
  for (int i = 0; i < N_REQUESTS; ++i) printf("%s\n  %s\n", kQuestions[i], answers[i]);
  if (colibri_scheduler_destroy(scheduler, &error) != COLIBRI_OK) return fail(&error);
  if (colibri_model_close(model, &error) != COLIBRI_OK) return fail(&error);
  return 0;
}

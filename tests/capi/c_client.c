/* SPDX-License-Identifier: Apache-2.0
 *
 * A C11 program over the public headers alone: opens a model, generates 16 tokens and prints the
 * text, as the README shows it. Fails with a message if any call fails or if nothing was generated.
 */
#include <colibri/colibri.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what, const colibri_error *error) {
  fprintf(stderr, "%s: %s\n", what, error->message);
  return 1;
}

static int generate(colibri_model *model, colibri_scheduler *scheduler, colibri_error *error) {
  int32_t prompt[64];
  size_t n_prompt = 0;
  const char *text = "Once upon a time";
  if (colibri_tokenizer_encode(colibri_model_tokenizer(model), text, strlen(text),
                               COLIBRI_CONTROL_PLAIN, prompt, 64, &n_prompt, error))
    return fail("encode", error);
  colibri_request_options request;
  colibri_request_options_init(&request, sizeof(request));
  request.prompt_ids = prompt;
  request.n_prompt_ids = n_prompt;
  request.max_tokens = 16;
  colibri_request_id id;
  if (colibri_scheduler_submit(scheduler, &request, &id, NULL, error)) return fail("submit", error);

  size_t n_bytes = 0;
  for (;;) {
    colibri_event events[8];
    size_t n_events = 0;
    if (colibri_scheduler_step(scheduler, COLIBRI_STEP_NOWAIT, NULL, error))
      return fail("step", error);
    if (colibri_scheduler_next_events(scheduler, events, sizeof(events[0]), 8, &n_events, error))
      return fail("next_events", error);
    for (size_t i = 0; i < n_events; ++i) {
      if (events[i].text != NULL) fwrite(events[i].text, 1, events[i].text_bytes, stdout);
      n_bytes += events[i].text_bytes;
      if (events[i].kind == COLIBRI_EVENT_FINISHED) {
        puts("");
        return events[i].status == COLIBRI_OK && n_bytes > 0 ? 0 : 1;
      }
    }
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  if (colibri_abi_version() != COLIBRI_ABI_VERSION) return 1;
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model *model = NULL;
  colibri_scheduler *scheduler = NULL;
  if (colibri_model_open(argv[1], NULL, &model, &error)) return fail("open", &error);
  if (colibri_scheduler_create(model, NULL, &scheduler, &error)) return fail("create", &error);
  const int result = generate(model, scheduler, &error);
  if (colibri_scheduler_destroy(scheduler, &error)) return fail("destroy", &error);
  if (colibri_model_close(model, &error)) return fail("close", &error);
  return result;
}

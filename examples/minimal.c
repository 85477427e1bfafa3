/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest host: opens a model, computes a prompt, takes the most likely next token ten times.
 * Success is 0, so calls that need each other are joined by ||.
 *
 *     minimal FOLDER
 */
#include <stdio.h>
#include <string.h>

#include "colibri/colibri.h"

static int32_t most_likely(const float *logits, size_t n_logits) {
  size_t best = 0;
  for (size_t i = 1; i < n_logits; ++i) {
    if (logits[i] > logits[best]) best = i;
  }
  return (int32_t)best;
}

int main(int argc, char **argv) {
  const char *prompt = "[gMASK]<sop>Once upon a time";
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_model *model = NULL;
  colibri_kv_slot *slot = NULL;
  colibri_batch *batch = NULL;
  int32_t ids[32];
  size_t n_ids = 0;
  if (argc != 2) return fputs("usage: minimal FOLDER\n", stderr), 2;

  int failed = colibri_model_open(argv[1], NULL, &model, &error) ||
               colibri_kv_slot_create(model, &slot, &error) ||
               colibri_batch_create(model, &batch, &error) ||
               colibri_tokenizer_encode(colibri_model_tokenizer(model), prompt, strlen(prompt),
                                        COLIBRI_CONTROL_ALLOWED, ids, 32, &n_ids, &error);
  for (int i = 0; i < 10 && !failed; ++i) {
    const float *logits = NULL;
    char text[64];
    size_t n = 0;
    failed = colibri_batch_clear(batch, &error) ||
             colibri_batch_add(batch, slot, ids, n_ids, COLIBRI_LOGITS_LAST, NULL, &error) ||
             colibri_batch_decode(batch, &error) ||
             colibri_batch_logits(batch, (uint32_t)n_ids - 1, &logits, &n, &error);
    if (failed) break;
    ids[0] = most_likely(logits, n);
    n_ids = 1;
    failed = colibri_tokenizer_decode(colibri_model_tokenizer(model), ids, 1, 1, text, sizeof text,
                                      &n, &error);
    if (!failed) printf("%s", text);
  }
  puts("");
  if (failed) fprintf(stderr, "minimal: %s\n", error.message);
  colibri_batch_destroy(batch, NULL);
  colibri_kv_slot_destroy(slot, NULL);
  colibri_model_close(model, NULL);
  return failed ? 1 : 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Many requests at once: submit, step, read events. The host drives; no thread of the library calls
 * it.
 */
#ifndef COLIBRI_SCHEDULER_H
#define COLIBRI_SCHEDULER_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/model.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Continuous batching over KV slots of one model. One of the model's n_engines. */
typedef struct colibri_scheduler colibri_scheduler;

/** Options of colibri_scheduler_create(). 0 always means the default. */
typedef struct colibri_scheduler_options {
  uint32_t struct_size;    /**< set by colibri_scheduler_options_init() */
  uint32_t n_slots;        /**< slots to take from the model's pool, 1..n_slots of the model.
                                Default: all that are free */
  uint32_t row_budget;     /**< rows of one step, 1..max_rows. Default: max_rows */
  uint32_t prefill_chunk;  /**< prompt rows of one request in one step, 1..row_budget.
                                Default: row_budget */
  uint32_t decode_reserve; /**< rows of a step that prompt chunks leave free while requests decode,
                                0..row_budget - 1. Decode rows always come first; this only bounds
                                how large mixed steps get. Default: 0 */
  uint32_t max_queued;     /**< requests that may wait for a slot, 1..65536. Default: 1024 */
} colibri_scheduler_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_scheduler_options) of the caller.
 *
 * Threads  Any.
 * Since    0.1
 */
COLIBRI_API void colibri_scheduler_options_init(colibri_scheduler_options *options,
                                                size_t struct_size);

/**
 * Makes a scheduler over slots of the model's pool.
 *
 * @param options    NULL for defaults.
 * @param scheduler  [out] NULL on failure.
 *
 * Ownership  The caller destroys it, before the model is closed. Holds its slots until then.
 * Threads    Any.
 * Errors     COLIBRI_E_CAPACITY  no engine or not enough slots left.
 *            COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_create(colibri_model *model,
                                                    const colibri_scheduler_options *options,
                                                    colibri_scheduler **scheduler,
                                                    colibri_error *error);

/**
 * Ends all requests without further events and frees everything. NULL is allowed.
 *
 * Threads    No other call on it may be running.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_destroy(colibri_scheduler *scheduler,
                                                     colibri_error *error);

/**
 * How the next token is chosen from logits. All fields 0: greedy. Order: repetition penalty,
 * temperature, top_k, top_p, min_p, draw.
 */
typedef struct colibri_sampler {
  uint32_t struct_size; /**< set by colibri_sampler_init() */
  float temperature;    /**< 0: the largest logit (ties: lower id); else 1e-3..100 */
  uint32_t top_k;       /**< keep the k largest; 0: all */
  float top_p; /**< keep the smallest set with at least this probability, 0 < p <= 1; 0: all */
  float min_p; /**< drop tokens below min_p times the largest probability, 0..1 */
  float repetition_penalty;   /**< divides positive and multiplies negative logits of recent tokens,
                                 0.01..100; 0: 1.0 */
  uint32_t repetition_window; /**< recent tokens, prompt included, that count; 0: 64 */
  uint32_t reserved;          /**< must be 0 */
  uint64_t seed;              /**< with the position it decides the draw; batch mates never do */
} colibri_sampler;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param sampler      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_sampler) of the caller.
 *
 * Threads  Any.
 * Since    0.1
 */
COLIBRI_API void colibri_sampler_init(colibri_sampler *sampler, size_t struct_size);

/** Options of one request. Fill with colibri_request_options_init(). */
typedef struct colibri_request_options {
  uint32_t struct_size;           /**< set by colibri_request_options_init() */
  uint32_t max_tokens;            /**< tokens to generate at most; 0: what the context leaves */
  const int32_t *prompt_ids;      /**< n_prompt_ids ids; copied */
  size_t n_prompt_ids;            /**< at least 1 */
  const colibri_sampler *sampler; /**< NULL: greedy; copied */
  const int32_t *stop_ids; /**< ids that end the request, beside the model's own set; copied */
  size_t n_stop_ids;       /**< at most 1024 */
  const char *const *stop_strings; /**< NUL-terminated texts that end the request; copied. They
                                        need a tokenizer */
  size_t n_stop_strings;           /**< at most 64, each 1..1024 bytes */
  uint32_t ignore_model_stops; /**< 1: the model's own stop ids do not end the request; 0 or 1 */
  int32_t priority;            /**< larger is admitted earlier; equal: first come first served */
  uint64_t user_data;          /**< returned in every event of the request */
  uint32_t wants_logprobs; /**< 1: token events carry the chosen token's log-probability; 0 or 1 */
  uint32_t reserved;       /**< must be 0 */
} colibri_request_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_request_options) of the caller.
 *
 * Threads  Any.
 * Since    0.1
 */
COLIBRI_API void colibri_request_options_init(colibri_request_options *options, size_t struct_size);

/** Number of a request in its scheduler: 1, 2, ... Never reused. */
typedef uint64_t colibri_request_id;

/**
 * Queues a request. Its whole KV need (prompt + max_tokens) is reserved when it gets a slot, so an
 * admitted request never runs out of room.
 *
 * @param options  Copied.
 * @param request  [out] The request's number.
 * @param effective_max_tokens [out] max_tokens after clamping to the context; may be NULL.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_CONTEXT   the prompt leaves no room for one token: prompt, requested and
 *                                available positions are named. Nothing is ever cut.
 *            COLIBRI_E_CAPACITY  max_queued requests wait already.
 *            COLIBRI_E_ARGUMENT  a field outside its range, a token id outside the vocabulary.
 *            COLIBRI_E_HANDLE, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_submit(colibri_scheduler *scheduler,
                                                    const colibri_request_options *options,
                                                    colibri_request_id *request,
                                                    uint32_t *effective_max_tokens,
                                                    colibri_error *error);

/** How colibri_scheduler_step() behaves when there is nothing to do: return at once, or sleep until
 *  a request is submitted, cancelled, stopped or resumed, or until colibri_scheduler_wake(). With
 *  events that wait to be read it never sleeps. */
typedef int32_t colibri_step_mode;
#define COLIBRI_STEP_NOWAIT 0
#define COLIBRI_STEP_WAIT 1

/** What one step did. */
typedef struct colibri_step_result {
  uint32_t struct_size;    /**< set by the caller */
  uint32_t n_rows;         /**< rows of the forward pass; 0: there was nothing to do */
  uint32_t n_prefill_rows; /**< of these, prompt rows */
  uint32_t n_decode_rows;  /**< of these, rows that follow a generated token */
  uint32_t n_active;       /**< requests that hold a slot after the step */
  uint32_t n_queued;       /**< requests that wait after the step, paused ones included */
  uint32_t n_events;       /**< events waiting to be read */
  uint32_t reserved;
  uint64_t elapsed_ns; /**< wall clock of the step, the sleep of WAIT left out */
} colibri_step_result;

/**
 * Runs one scheduling step: at most one forward pass.
 *
 * In this order: takes in cancels and stops; gives free slots to waiting requests (highest priority
 * first; the free slot with the longest common prefix, unless another waiting request gains more by
 * it); chooses rows (one decode row for every
 * decoding request, then prompt chunks in order of admission); runs the pass; samples; retires
 * finished requests.
 *
 * @param mode    COLIBRI_STEP_*.
 * @param result  [out] The caller sets struct_size; may be NULL.
 *
 * Threads    One call at a time; a second one returns COLIBRI_E_BUSY. Schedulers of one model may
 *            step side by side.
 * Blocking   Also with NOWAIT a step may wait for expert reads.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_BUSY, COLIBRI_E_MEMORY: nothing
 *            happened, a later step goes on. A failure inside one request (a read, logits that are
 *            not finite) is an event of that request, not an error of the step.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_step(colibri_scheduler *scheduler,
                                                  colibri_step_mode mode,
                                                  colibri_step_result *result,
                                                  colibri_error *error);

/**
 * Makes a step that sleeps in COLIBRI_STEP_WAIT return, now or when it next would sleep.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_wake(colibri_scheduler *scheduler,
                                                  colibri_error *error);

/** Kinds of events. A program must skip kinds that it does not know. */
#define COLIBRI_EVENT_TOKEN 1    /**< one generated token */
#define COLIBRI_EVENT_PREFILL 2  /**< progress of a prompt */
#define COLIBRI_EVENT_FINISHED 3 /**< the last event of a request */
#define COLIBRI_EVENT_STARTED 4  /**< the request got a slot */

/** Why a request ended. Each request ends exactly once, with one of these. A stop token is not part
 *  of the output, a stop string not part of the text. */
#define COLIBRI_FINISH_NONE 0        /**< not a FINISHED event */
#define COLIBRI_FINISH_STOP_TOKEN 1  /**< finished: a stop id was chosen */
#define COLIBRI_FINISH_LENGTH 2      /**< max_tokens were generated */
#define COLIBRI_FINISH_STOP_STRING 3 /**< finished: a stop string was completed */
#define COLIBRI_FINISH_STOPPED 4     /**< colibri_scheduler_stop() */
#define COLIBRI_FINISH_CANCELLED 5   /**< colibri_scheduler_cancel() */
#define COLIBRI_FINISH_FAILED 6      /**< see status and message of the event */

/** One thing that happened to one request. */
typedef struct colibri_event {
  int32_t kind;  /**< COLIBRI_EVENT_* */
  int32_t token; /**< TOKEN: the id; else -1 */
  colibri_request_id request;
  uint64_t user_data; /**< of the request */
  const char *text;   /**< TOKEN, FINISHED: whole characters that can be shown now, not
                           NUL-terminated; NULL without tokenizer. What could still become a stop
                           string is held back and comes with a later event */
  uint32_t text_bytes;
  int32_t finish;        /**< FINISHED: COLIBRI_FINISH_* */
  colibri_status status; /**< FINISHED: COLIBRI_OK, or why it failed */
  float logprob;         /**< TOKEN: natural logarithm of the token's probability before temperature
                              and filters, if asked for; else 0 */
  uint32_t n_prompt_done;   /**< positions of the prompt that are in the slot */
  uint32_t n_prompt;        /**< prompt length */
  uint32_t n_prompt_reused; /**< of these, taken over from a slot's earlier content */
  uint32_t n_generated;     /**< tokens generated so far, a stop token not counted */
  uint64_t prefill_ns;      /**< from admission to the end of the prompt */
  uint64_t decode_ns;       /**< from there to now */
  const char *message;      /**< FINISHED with FAILED: text for people, NUL-terminated; else NULL */
} colibri_event;

/**
 * Takes waiting events, oldest first.
 *
 * @param events      [out] capacity structs of event_size bytes each; NULL only with capacity 0.
 * @param event_size  sizeof(colibri_event) of the caller: the library fills at most so many bytes
 *                    of each and clears the rest. At most 4096.
 * @param capacity    Elements of events.
 * @param n_events    [out] Events written; 0: none waited.
 *
 * Ownership  Text and message belong to the scheduler; valid until the next
 *            colibri_scheduler_next_events() or destroy.
 * Threads    One call at a time, not during a step.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_next_events(colibri_scheduler *scheduler,
                                                         colibri_event *events, size_t event_size,
                                                         size_t capacity, size_t *n_events,
                                                         colibri_error *error);

/**
 * Ends a request soon, keeping what it has: at the next step it finishes with
 * COLIBRI_FINISH_STOPPED and its held-back text.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_NOT_FOUND  no such request, or it has ended; COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_stop(colibri_scheduler *scheduler,
                                                  colibri_request_id request, colibri_error *error);

/**
 * Abandons a request: in the queue, between prompt chunks and between tokens. It finishes with
 * COLIBRI_FINISH_CANCELLED at the next step; its slot is free in the same step. Other requests'
 * tokens do not change.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_NOT_FOUND  no such request, or it has ended; COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_cancel(colibri_scheduler *scheduler,
                                                    colibri_request_id request,
                                                    colibri_error *error);

/**
 * Holds a request back: it keeps its slot and gets no rows until colibri_scheduler_resume(). Its
 * tokens are the same as without a pause.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_NOT_FOUND, COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_pause(colibri_scheduler *scheduler,
                                                   colibri_request_id request,
                                                   colibri_error *error);

/**
 * Ends a pause.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_NOT_FOUND, COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_resume(colibri_scheduler *scheduler,
                                                    colibri_request_id request,
                                                    colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_SCHEDULER_H */

/* SPDX-License-Identifier: Apache-2.0
 *
 * The low level: rows of any slots in one forward pass, and the logits that come back.
 */
#ifndef COLIBRI_BATCH_H
#define COLIBRI_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/kv_slot.h"
#include "colibri/model.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Rows to decode together. One of the model's n_engines. A row's result does not depend on the
 * other rows, on their order, or on how a sequence was cut into batches: the bits are the same.
 */
typedef struct colibri_batch colibri_batch;

/** Which of the added rows give logits. */
#define COLIBRI_LOGITS_NONE 0
#define COLIBRI_LOGITS_LAST 1 /**< the last one of this call */
#define COLIBRI_LOGITS_ALL 2

/**
 * Makes an empty batch for up to max_rows rows of the model.
 *
 * @param batch  [out] NULL on failure.
 *
 * Ownership  The caller destroys it, before the model is closed.
 * Threads    Any.
 * Errors     COLIBRI_E_CAPACITY  n_engines batches and schedulers exist already.
 *            COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_create(colibri_model *model, colibri_batch **batch,
                                                colibri_error *error);

/**
 * Frees a batch; NULL is allowed. Rows that wait are dropped.
 *
 * Threads    No other call on it may be running.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_destroy(colibri_batch *batch, colibri_error *error);

/**
 * Drops all rows and their results.
 *
 * Threads    One call at a time.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_clear(colibri_batch *batch, colibri_error *error);

/**
 * Adds the next tokens of a slot: a prompt chunk or one decode row. They stand at the positions
 * behind the slot's length and behind rows of the same slot that were added before.
 *
 * @param slot         A slot of the same model. It keeps its rows here until decode, clear or
 *                     destroy of the batch.
 * @param tokens       n_tokens ids, at least 1, each below the vocabulary size; copied.
 * @param logits_mode  COLIBRI_LOGITS_*.
 * @param first_row    [out] Number of the first added row in this batch; may be NULL.
 *
 * Threads    One call at a time.
 * Errors     COLIBRI_E_CAPACITY  max_rows or max_logits_rows would be exceeded.
 *            COLIBRI_E_CONTEXT   the slot would be over-full: length, added and capacity are named.
 *            COLIBRI_E_STATE     the batch was decoded and not cleared.
 *            COLIBRI_E_BUSY      rows of this slot wait in another batch, or a call is running.
 *            COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE. On every error nothing was added.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_add(colibri_batch *batch, colibri_kv_slot *slot,
                                             const int32_t *tokens, size_t n_tokens,
                                             int32_t logits_mode, uint32_t *first_row,
                                             colibri_error *error);

/**
 * Runs the forward pass over all rows. Slots grow by their rows that succeeded.
 *
 * Blocking   Until the pass is done, reads of missing experts included.
 * Threads    One call at a time; different batches may run side by side if they share no slot.
 * Errors     COLIBRI_E_STATE  no rows, or already decoded.
 *            COLIBRI_E_IO     at least one row failed: ask colibri_batch_row_status(). Rows of the
 *                             same slot behind it failed too; other slots are complete. Batch,
 *                             slots and model stay usable; the failed slot ends before its first
 *                             failed row.
 *            COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_decode(colibri_batch *batch, colibri_error *error);

/**
 * Rows in the batch; 0 for NULL and for what is no batch.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API uint32_t colibri_batch_row_count(const colibri_batch *batch);

/**
 * Outcome of one row after decode: COLIBRI_OK, COLIBRI_E_IO, or COLIBRI_E_NON_FINITE if its logits
 * are not finite (the row's KV stays).
 *
 * Threads    Any number of const calls, not during another call on the batch.
 * Errors     COLIBRI_E_IO, COLIBRI_E_NON_FINITE: of the row, its text is in error. All others are
 *            of the call: COLIBRI_E_ARGUMENT (row), COLIBRI_E_STATE (not decoded), COLIBRI_E_HANDLE,
 *            COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_row_status(const colibri_batch *batch, uint32_t row,
                                                    colibri_error *error);

/**
 * Logits of a row.
 *
 * @param row       A row that asked for logits.
 * @param logits    [out] n_logits float32 values.
 * @param n_logits  [out] V; may be NULL.
 *
 * Ownership  Belongs to the batch; valid until clear, decode or destroy.
 * Threads    Any number of const calls, not during another call on the batch.
 * Errors     COLIBRI_E_ARGUMENT  no such row, or it asked for none.
 *            COLIBRI_E_STATE     not decoded, or the row failed.
 *            COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_batch_logits(const colibri_batch *batch, uint32_t row,
                                                const float **logits, size_t *n_logits,
                                                colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_BATCH_H */

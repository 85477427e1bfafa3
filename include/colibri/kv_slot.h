/* SPDX-License-Identifier: Apache-2.0
 *
 * A KV slot: the state of one sequence of tokens in a model.
 */
#ifndef COLIBRI_KV_SLOT_H
#define COLIBRI_KV_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/model.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The KV state of one sequence: positions 0 .. length - 1. A child of its model. */
typedef struct colibri_kv_slot colibri_kv_slot;

/**
 * Takes an empty slot from the model's pool.
 *
 * @param slot  [out] NULL on failure.
 *
 * Ownership  The caller destroys it, before the model is closed.
 * Threads    Any.
 * Errors     COLIBRI_E_CAPACITY  all n_slots are in use, by other slots or by schedulers.
 *            COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_create(colibri_model *model, colibri_kv_slot **slot,
                                                  colibri_error *error);

/**
 * Gives the slot back to the pool; NULL is allowed.
 *
 * Threads    No other call on the slot may be running.
 * Errors     COLIBRI_E_BUSY    rows of it wait in a batch (clear the batch first), or a call is
 *                              running.
 *            COLIBRI_E_HANDLE  not a slot.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_destroy(colibri_kv_slot *slot, colibri_error *error);

/**
 * Positions in use; 0 for NULL and for what is no slot. During a decode: those before it.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API uint32_t colibri_kv_slot_length(const colibri_kv_slot *slot);

/**
 * Positions it can hold; 0 for NULL and for what is no slot.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API uint32_t colibri_kv_slot_capacity(const colibri_kv_slot *slot);

/**
 * Forgets all positions from `length` on. Models whose attention sees everything reach every length
 * up to the present one; models with attention windows keep only what a window needs, and reach 0
 * and the lengths of which colibri_kv_slot_reusable() says so.
 *
 * Threads    One call at a time.
 * Errors     COLIBRI_E_ARGUMENT  length above the present length, or one that cannot be reached: the
 *                                text says which can; the slot is as before.
 *            COLIBRI_E_BUSY      rows of the slot wait in a batch, or a call is running.
 *            COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_truncate(colibri_kv_slot *slot, uint32_t length,
                                                    colibri_error *error);

/**
 * The longest length, at most `length`, that colibri_kv_slot_truncate() and colibri_kv_slot_fork()
 * can reach: `length` itself, or 0 if layers with an attention window have overwritten what the next
 * position would see. The slot is not changed.
 *
 * @param length    0 .. length of slot.
 * @param reusable  [out] 0 on failure.
 *
 * Threads    Any number of const calls, not during another call on the slot.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_kv_slot_reusable(const colibri_kv_slot *slot, uint32_t length,
                                                    uint32_t *reusable, colibri_error *error);

/**
 * A new slot that continues from the first `length` positions of this one. Later tokens have the
 * same bits as if the prefix had been computed in the new slot.
 *
 * @param length  0 .. length of slot.
 * @param fork    [out] NULL on failure.
 *
 * Threads    One call at a time on slot.
 * Errors     COLIBRI_E_CAPACITY  all n_slots are in use.
 *            COLIBRI_E_ARGUMENT  length above the present length or one that cannot be reached
 *                                (colibri_kv_slot_reusable()), or fork is NULL.
 *            COLIBRI_E_BUSY      rows of the slot wait in a batch, or a call is running.
 *            COLIBRI_E_HANDLE, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_fork(colibri_kv_slot *slot, uint32_t length,
                                                colibri_kv_slot **fork, colibri_error *error);

/**
 * Writes the slot's state as a blob: fingerprint (snapshot identity, layout, number format,
 * epsilon, activation mode), token ids, KV data, checksum. It does not depend on the slot's
 * capacity or on the machine's kernel set.
 *
 * @param blob      [out] NULL with capacity 0 only asks for the size.
 * @param capacity  Bytes of blob.
 * @param n_bytes   [out] Size, also when the buffer is too small.
 *
 * Threads    Any number of const calls, not during another call on the slot.
 * Errors     COLIBRI_E_CAPACITY, COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_save(const colibri_kv_slot *slot, uint8_t *blob,
                                                size_t capacity, size_t *n_bytes,
                                                colibri_error *error);

/**
 * Replaces the slot's state by a saved one. After COLIBRI_E_MISMATCH, _FORMAT or _CONTEXT the slot
 * is empty; after any other failure it is as before.
 *
 * @param blob     n_bytes bytes from colibri_kv_slot_save(), of this or another process.
 *
 * Threads    One call at a time.
 * Errors     COLIBRI_E_MISMATCH  the blob belongs to another snapshot, layout or setting: which, is
 *                                said.
 *            COLIBRI_E_FORMAT    the blob is cut or damaged.
 *            COLIBRI_E_CONTEXT   it has more positions than the slot holds.
 *            COLIBRI_E_BUSY      rows of the slot wait in a batch, or a call is running.
 *            COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_restore(colibri_kv_slot *slot, const uint8_t *blob,
                                                   size_t n_bytes, colibri_error *error);

/**
 * Token ids of the positions, in order.
 *
 * @param ids       [out] NULL with capacity 0 only asks for the count.
 * @param capacity  Elements of ids.
 * @param n_ids     [out] Count, also when the buffer is too small.
 *
 * Threads    Any number of const calls, not during another call on the slot.
 * Errors     COLIBRI_E_CAPACITY, COLIBRI_E_ARGUMENT, COLIBRI_E_HANDLE, COLIBRI_E_BUSY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_kv_slot_tokens(const colibri_kv_slot *slot, int32_t *ids,
                                                  size_t capacity, size_t *n_ids,
                                                  colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_KV_SLOT_H */

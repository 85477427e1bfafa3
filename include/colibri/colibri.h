/* SPDX-License-Identifier: Apache-2.0
 *
 * libcolibri: runs mixture-of-experts language models whose experts live on disk, in RAM, or both.
 * This umbrella header includes all others and states once what holds everywhere.
 *
 * Objects
 *   colibri_model      a snapshot folder, opened: weights, expert cache, pool of KV slots
 *   colibri_tokenizer  text to ids and back
 *   colibri_kv_slot    the state of one sequence
 *   colibri_batch      rows of any slots in one forward pass (low level)
 *   colibri_scheduler  many requests, step by step (high level)
 * Slots, batches and schedulers are children of their model and are destroyed before it; the order
 * is checked, a wrong one is COLIBRI_E_BUSY.
 *
 * Conventions
 *   1. A fallible function returns colibri_status: 0 is success, negative a code of status.h. Its
 *      last parameter is a colibri_error of the caller, or NULL. Results go through out parameters,
 *      which are left unmodified on failure, except that new handles are set to NULL.
 *   2. Option and result structs begin with struct_size, the caller's sizeof. Options are filled by
 *      their init function; a field that is 0 or NULL means the default. Fields are only ever added
 *      at the end, so a struct of an earlier version is accepted. Of a struct that is larger than
 *      the library knows, an unknown rest must be zero in options and is set to zero in results.
 *   3. A const handle may be used by several calls at once, a non-const one by one call at a time;
 *      a call that does not fit one that is running gets COLIBRI_E_BUSY and never corrupts it.
 *      Functions that say "Threads Any" may run beside every call but the one that ends the object.
 *      A handle that is NULL or of another type is COLIBRI_E_HANDLE; one that was closed is no
 *      valid memory any more, which is detected only by chance.
 *   4. Text is UTF-8. Arrays are a pointer and a count of elements. A NULL buffer with capacity 0
 *      is a size query. A buffer that is too small is COLIBRI_E_CAPACITY: nothing is written to it,
 *      and the needed size is given.
 *   5. The library keeps no pointer of the caller past the call, except callbacks and their user
 *      pointers, which say so.
 *   6. No call aborts, exits, prints, or throws. Invalid arguments are checked in every build.
 *   7. The same snapshot and the same tokens give the same bits of logits whatever the batch, the
 *      chunks, the number of threads, the kernel set, and the expert budget.
 *
 * Process-wide effects
 *   threads       a model starts n_threads - 1 computing threads and n_loader_threads reading
 *                 threads; none works for it any more when colibri_model_close() returns. The
 *                 computing ones belong to oneTBB, which may keep them asleep for other users.
 *                 Idle threads sleep. No thread calls the host. colibri_model_plan(),
 *                 colibri_model_plan_json() and the functions of convert.h and measure.h start the
 *                 computing ones for the length of the call.
 *   files         a snapshot's shards stay open (close-on-exec) until its model is closed. Only the
 *                 functions of convert.h that make a snapshot write: DESTINATION and, while they
 *                 work, DESTINATION.partial
 *   memory        anonymous memory as planned; nothing is locked or pinned; weights are not
 *                 memory-mapped
 *   environment   no variable is read
 *   loading       once loaded the library stays mapped, also after dlclose()
 *   signals, locale, working directory, standard streams, resource limits: never touched
 *   float mode    set to round-to-nearest with subnormals inside calls that compute, restored
 *                 before they return
 *   fork          do not use a model in a child process after fork(); open it there
 */
#ifndef COLIBRI_COLIBRI_H
#define COLIBRI_COLIBRI_H

#include "colibri/batch.h"
#include "colibri/convert.h"
#include "colibri/export.h"
#include "colibri/kv_slot.h"
#include "colibri/measure.h"
#include "colibri/model.h"
#include "colibri/scheduler.h"
#include "colibri/stats.h"
#include "colibri/status.h"
#include "colibri/tokenizer.h"
#include "colibri/version.h"

#endif /* COLIBRI_COLIBRI_H */

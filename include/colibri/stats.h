/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters. They only grow; the library never resets them.
 */
#ifndef COLIBRI_STATS_H
#define COLIBRI_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/model.h"
#include "colibri/scheduler.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Counters of an open model, over all its engines. */
typedef struct colibri_model_stats {
  uint32_t struct_size; /**< set by the caller */
  uint32_t n_slots_in_use;
  uint32_t n_engines_in_use;
  uint32_t largest_queue_depth; /**< expert reads in flight at once, largest seen */
  uint64_t expert_hits;         /**< needs of an expert that was in RAM */
  uint64_t expert_misses;       /**< needs that had to wait for a read */
  uint64_t expert_reads;        /**< experts read from files */
  uint64_t read_bytes;          /**< bytes read for experts */
  uint64_t read_failures;
  uint64_t expert_evictions;
  uint64_t resident_experts;      /**< now */
  uint64_t resident_expert_bytes; /**< now, reads in flight included */
  uint64_t expert_budget_bytes;
  uint64_t expert_wait_ns; /**< computing threads waited for reads */
  uint64_t n_passes;       /**< forward passes */
  uint64_t n_rows;         /**< rows of all passes */
  /* Since 0.2: what passes read of weights and KV, as their layouts have it; norms, biases and
   * activations are left out. */
  uint64_t dense_bytes_touched;  /**< every matrix product but those of routed experts: values and
                                      scales once a pass, whatever its rows; for an embedding row
                                      the 16 columns that it is stored with */
  uint64_t expert_bytes_touched; /**< every expert that rows of a pass chose, once a layer */
  uint64_t kv_bytes_touched;     /**< for every row and layer keys, values and index keys of the
                                      positions that it attends to or chooses from */
  uint64_t n_experts_touched;    /**< distinct experts, summed over layers and passes */
  uint64_t n_expert_rows;        /**< rows that experts were computed for, summed likewise */
  uint64_t n_integer_macs;       /**< multiply-adds of INT4 and INT8 weights with int8 rows */
  uint64_t n_compute_regions;    /**< pieces of work that computing threads could share */
  uint64_t compute_region_ns;    /**< wall clock of these, summed */
  uint64_t compute_busy_ns;      /**< of all computing threads inside them; the rest of
                                      compute_region_ns * n_threads they waited or arrived */
  uint64_t n_expert_macs;        /**< the part of n_integer_macs that is routed experts' */
  uint64_t expert_ns;            /**< wall clock of the products of routed experts, integer or not,
                                      and of what lies between those of one expert; without
                                      routing, waiting for reads and the sum over experts */
} colibri_model_stats;

/**
 * Counters of the model and its expert cache.
 *
 * @param stats  [out] The caller sets struct_size.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_get_stats(const colibri_model *model,
                                                   colibri_model_stats *stats,
                                                   colibri_error *error);

/** Counters of a scheduler. submitted = finished + length + stopped + cancelled + failed + active +
 * queued. */
typedef struct colibri_scheduler_stats {
  uint32_t struct_size; /**< set by the caller */
  uint32_t n_active;    /**< requests that hold a slot, paused ones included */
  uint32_t n_queued;
  uint32_t reserved;
  uint64_t n_submitted; /**< accepted requests */
  uint64_t n_rejected;  /**< refused by submit */
  uint64_t n_finished;  /**< by stop id or stop string */
  uint64_t n_length;
  uint64_t n_stopped;
  uint64_t n_cancelled;
  uint64_t n_failed;
  uint64_t n_steps; /**< steps that ran a pass */
  uint64_t n_prefill_rows;
  uint64_t n_decode_rows;
  uint64_t n_reused_positions; /**< prompt positions taken over from slots */
  uint64_t n_tokens;           /**< generated */
} colibri_scheduler_stats;

/**
 * Counters of one scheduler.
 *
 * @param stats  [out] The caller sets struct_size.
 *
 * Threads    Any, also while another thread steps.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_scheduler_get_stats(const colibri_scheduler *scheduler,
                                                       colibri_scheduler_stats *stats,
                                                       colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_STATS_H */

/* SPDX-License-Identifier: Apache-2.0
 *
 * A model: a snapshot folder, opened. Everything that needs memory is decided at open.
 */
#ifndef COLIBRI_MODEL_H
#define COLIBRI_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * An opened model: dense weights in memory, routed experts in a cache of planned size, a pool of KV
 * slots. Created by colibri_model_open(), ended by colibri_model_close(). Slots, batches and
 * schedulers are its children: they must be destroyed before it.
 */
typedef struct colibri_model colibri_model;

/** How matrices stored as INT4 or INT8 are multiplied. */
#define COLIBRI_ACTIVATIONS_DEFAULT 0 /**< as COLIBRI_ACTIVATIONS_INT8 */
#define COLIBRI_ACTIVATIONS_INT8 1    /**< activations rounded to int8 per row and group; fast */
#define COLIBRI_ACTIVATIONS_FLOAT 2   /**< float32 activations; measures what the rounding costs */

/** Number format of the KV slots. */
#define COLIBRI_KV_DEFAULT 0 /**< as COLIBRI_KV_F32 */
#define COLIBRI_KV_F32 1     /**< float32 */
#define COLIBRI_KV_BF16 2    /**< bfloat16: half the memory, 8 bits of precision. Since 0.2 */
#define COLIBRI_KV_F16 3     /**< float16: half the memory, 11 bits up to 65504. Since 0.2 */

/** Levels of log lines. */
#define COLIBRI_LOG_ERROR 1
#define COLIBRI_LOG_WARNING 2
#define COLIBRI_LOG_INFO 3
#define COLIBRI_LOG_DEBUG 4

/**
 * Progress of a long call.
 *
 * @param user         As given in the options.
 * @param done_bytes   Never falls; equals total_bytes at the end.
 * @param total_bytes  Constant during one call.
 * @return 0 to go on; anything else stops the call, which frees everything and returns
 *         COLIBRI_E_CANCELLED.
 *
 * Threads  Called on the thread of the call that takes it. Must not call into the same object.
 */
typedef int32_t (*colibri_progress_fn)(void *user, uint64_t done_bytes, uint64_t total_bytes);

/**
 * One log line.
 *
 * @param user   As given in the options.
 * @param level  COLIBRI_LOG_*.
 * @param line   UTF-8, one whole line without line feed; valid during the call.
 *
 * Threads  Called on a thread that is inside a call of the host into the model or a child of it;
 *          several at once if several calls run. Must not call into the library.
 */
typedef void (*colibri_log_fn)(void *user, int32_t level, const char *line);

/**
 * Options of colibri_model_open() and colibri_model_plan(). Fill with colibri_model_options_init(),
 * then change what matters. 0 or NULL always means the default.
 */
typedef struct colibri_model_options {
  uint32_t struct_size; /**< set by colibri_model_options_init() */
  uint32_t n_threads;   /**< computing threads, the caller's included; 1..1024. Default: physical
                             cores inside the affinity mask and CPU quota */
  uint64_t ram_budget_bytes; /**< for everything this model uses together, any number. Default: 90 %
                                of what the machine and its control groups leave */
  uint32_t n_slots;          /**< KV slots in the pool, 1..512. Default 1 */
  uint32_t context_tokens;   /**< positions per slot, 1..max_positions of the model, at most
                                2097152. Default: the smaller of 4096 and max_positions */
  uint32_t max_rows;         /**< rows of one forward pass, 1..4096. Default 128 */
  uint32_t max_logits_rows; /**< rows of one pass that may ask for logits, 1..max_rows. Default: the
                                 larger of 8 and n_slots, at most max_rows */
  uint32_t n_engines;       /**< batches and schedulers that may exist at once, 1..64. Default 1 */
  int32_t activations;      /**< COLIBRI_ACTIVATIONS_* */
  int32_t kv_type;          /**< COLIBRI_KV_* */
  float latent_norm_eps; /**< epsilon of the two latent norms of attention, 1e-12..1. Default: the
                              config's latent_norm_eps, else its rms_norm_eps */
  uint32_t n_loader_threads; /**< expert reads in flight, 1..64. Default 4 */
  uint32_t skip_tokenizer;   /**< 1: do not load tokenizer.json even if it is there; 0 or 1 */
  const char *kernel_set; /**< "ref", "avx2", "avx512"; an unknown name is an error, as is one that
                               this CPU cannot run. Default: the fastest that it can */
  colibri_progress_fn progress; /**< called during open */
  void *progress_user;          /**< handed to progress; not kept past open */
  colibri_log_fn log;           /**< kept until the model is closed */
  void *log_user;               /**< handed to log; kept until the model is closed */
  int32_t log_level; /**< most detailed level to deliver, COLIBRI_LOG_*. Default COLIBRI_LOG_INFO */
  uint32_t
      refuse_outside_links; /**< 1: a file of the snapshot that is a link to outside of its folder
                                    is refused; 0: links are followed. 0 or 1 */
} colibri_model_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_model_options): how large the struct is in the caller's
 *                     program, so that a library of another version never writes past its end.
 *
 * Threads  Any.
 * Since    0.1
 */
COLIBRI_API void colibri_model_options_init(colibri_model_options *options, size_t struct_size);

/** The capacity decision for a snapshot and options. */
typedef struct colibri_plan {
  uint32_t struct_size;          /**< set by the caller */
  uint32_t is_feasible;          /**< 1 if minimum_bytes fits budget_bytes */
  uint64_t budget_bytes;         /**< what was given or found */
  uint64_t dense_bytes;          /**< all weights that are not routed experts */
  uint64_t kv_bytes;             /**< all slots */
  uint64_t workspace_bytes;      /**< activations, logits and scratch of all engines */
  uint64_t staging_bytes;        /**< read buffers */
  uint64_t overhead_bytes;       /**< tokenizer, tables, thread stacks: an upper estimate */
  uint64_t expert_bytes;         /**< granted to routed experts in RAM */
  uint64_t total_bytes;          /**< sum of the parts: the peak this model will use */
  uint64_t minimum_bytes;        /**< least budget with which open succeeds under these options */
  uint64_t full_bytes;           /**< from here on every expert stays in RAM */
  uint64_t all_experts_bytes;    /**< of all routed experts */
  uint64_t largest_expert_bytes; /**< of the largest routed expert */
  uint64_t n_experts;            /**< routed experts of all layers */
  uint64_t kv_bytes_per_token;   /**< KV of one position */
  uint32_t n_slots;              /**< effective options from here on */
  uint32_t context_tokens;
  uint32_t max_rows;
  uint32_t max_logits_rows;
  uint32_t n_engines;
  uint32_t n_threads;
  uint64_t largest_context_tokens; /**< largest context_tokens that this budget allows with n_slots;
                                      0: none */
} colibri_plan;

/**
 * Computes the plan without loading weights. An infeasible plan is a success with is_feasible 0.
 *
 * @param path     UTF-8 path of the folder, its index file, config.json, or any shard.
 * @param options  NULL for defaults.
 * @param plan     [out] The caller sets struct_size.
 *
 * Threads    Any.
 * Errors     As colibri_model_open(); COLIBRI_E_BUDGET only if no budget is given and the memory of
 *            the machine cannot be found out.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_plan(const char *path,
                                              const colibri_model_options *options,
                                              colibri_plan *plan, colibri_error *error);

/**
 * The same as JSON, members in this order:
 *
 *     {"feasible": true, "budget_bytes": B, "budget_origin": "option" or what decided it,
 *      "items": {"dense": B, "kv": B, "workspace": B, "staging": B, "overhead": B, "experts": B},
 *      "total_bytes": B, "minimum_bytes": B, "full_bytes": B,
 *      "tiers": {"ram": {"experts": N, "expert_bytes": B},
 *                "disk": {"experts": N, "expert_bytes": B}},
 *      "experts": {"count": N, "bytes": B, "largest_bytes": B, "minimum_resident": N},
 *      "kv_bytes_per_token": B, "largest_context_tokens": N,
 *      "options": {"n_slots": N, "context_tokens": N, "max_rows": N, "max_logits_rows": N,
 *                  "n_engines": N, "n_threads": N, "n_loader_threads": N, "kernel_set": "avx2",
 *                  "activations": "int8", "kv_type": "f32"}}
 *
 * "items" add up to "total_bytes". "ram" counts the experts that the granted bytes hold at the
 * least, "disk" the others. Later versions add members.
 *
 * @param buffer    [out] UTF-8, NUL-terminated; NULL with capacity 0 only asks for the length.
 * @param capacity  Bytes of buffer.
 * @param length    [out] Bytes of the text without NUL, also when the buffer is too small; may be
 *                  NULL unless the call is a size query.
 *
 * Threads    Any.
 * Errors     As colibri_model_plan(), and COLIBRI_E_CAPACITY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_plan_json(const char *path,
                                                   const colibri_model_options *options,
                                                   char *buffer, size_t capacity, size_t *length,
                                                   colibri_error *error);

/**
 * What a snapshot holds, without loading it, as JSON, members in this order:
 *
 *     {"model_type": "glm_moe_dsa", "identity": "16 hex digits", "layers": N,
 *      "attention": "latent" or "grouped", "windows": [keys that a row sees, by layer; 0: all] (only
 *      if a layer has one), "router": "sigmoid", "softmax" or "chosen-softmax",
 *      "config": {config.json as it is},
 *      "tensors": {"count": N, "bytes": B,
 *                  "formats": {"int4-grouped": {"count": N, "bytes": B}, ...}},
 *      "experts": {"layers": N, "per_layer": N, "per_token": N, "count": N, "bytes": B,
 *                  "largest_bytes": B, "packed_bytes": B},
 *      "stop_ids": [..], "stop_tokens": [texts whose ids the tokenizer knows],
 *      "shards": [{"name": "..", "bytes": B}, ..], "ignored_tensors": N, "warnings": [..]}
 *
 * Counts and bytes are of the tensors that the model uses, as stored; "packed_bytes" is what all
 * experts take in memory. Later versions add members.
 *
 * Buffer, length, threads and errors as colibri_model_plan_json().
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_snapshot_describe(const char *path, char *buffer,
                                                     size_t capacity, size_t *length,
                                                     colibri_error *error);

/**
 * Opens a snapshot: checks every file, plans memory, loads dense weights. Routed experts come on
 * demand.
 *
 * @param path     UTF-8 path of the folder, its index file, config.json, or any shard.
 * @param options  NULL for defaults.
 * @param model    [out] The new model; NULL on failure.
 *
 * Ownership  The caller closes the model. The path is not kept. Files stay open until then.
 * Threads    Any. Starts n_threads - 1 computing and n_loader_threads reading threads.
 * Errors     COLIBRI_E_ARGUMENT     NULL, bad struct_size, an option outside its range.
 *            COLIBRI_E_NOT_FOUND    no such path, or no snapshot there.
 *            COLIBRI_E_UNSUPPORTED  architecture, format or option that this version does not
 *                                   offer.
 *            COLIBRI_E_FORMAT       a file lies about its content: file, tensor and numbers are
 *                                   named.
 *            COLIBRI_E_INCOMPLETE   shards or tensors are absent: which, is named.
 *            COLIBRI_E_BUDGET       the budget is below the minimum: both are named.
 *            COLIBRI_E_MEMORY, COLIBRI_E_IO, COLIBRI_E_CANCELLED.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_open(const char *path,
                                              const colibri_model_options *options,
                                              colibri_model **model, colibri_error *error);

/**
 * Closes a model and frees all it holds; its threads have stopped. NULL is allowed.
 *
 * Threads    No other call on the model or its tokenizer may be running.
 * Errors     COLIBRI_E_BUSY    slots, batches, schedulers, or stream decoders of its tokenizer
 *                              still exist, or a call is running: nothing happened, the model is
 *                              usable.
 *            COLIBRI_E_HANDLE  not a model.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_close(colibri_model *model, colibri_error *error);

/** Read-only facts of an open model. */
typedef struct colibri_model_facts {
  uint32_t struct_size;     /**< set by the caller */
  uint32_t vocabulary_size; /**< V: floats in a row of logits */
  uint32_t n_token_ids;     /**< ids that can be sampled: the tokenizer's size, or V without one */
  uint32_t width;           /**< D */
  uint32_t n_layers;
  uint32_t n_experts; /**< routed experts per layer */
  uint32_t n_experts_per_token;
  uint32_t max_positions;  /**< of the model */
  uint32_t context_tokens; /**< of a slot of this open model */
  uint32_t n_slots;
  uint32_t max_rows;
  uint32_t max_logits_rows;
  uint32_t n_engines;
  uint32_t n_threads;
  int32_t activations; /**< COLIBRI_ACTIVATIONS_INT8 or _FLOAT */
  int32_t kv_type;     /**< COLIBRI_KV_F32, _BF16 or _F16 */
  float latent_norm_eps;
  uint32_t has_tokenizer;    /**< 1 or 0 */
  const char *kernel_set;    /**< name in use; valid until close */
  const char *model_type;    /**< as in config.json; valid until close */
  uint64_t identity;         /**< hash over files and headers of the snapshot */
  uint32_t kv_window_layers; /**< layers whose slots keep only what an attention window needs; 0: a
                                  slot reaches every shorter length. Since 0.2 */
} colibri_model_facts;

/**
 * Facts of an open model; they never change.
 *
 * @param facts  [out] The caller sets struct_size.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_get_facts(const colibri_model *model,
                                                   colibri_model_facts *facts,
                                                   colibri_error *error);

/**
 * Effective configuration, plan, formats and counters of an open model as JSON: {"version",
 * "snapshot": as colibri_snapshot_describe(), "plan": as colibri_model_plan_json(),
 * "latent_norm_eps", "has_tokenizer", "stop_ids", "stats": fields of colibri_model_stats}.
 *
 * Buffer and length as colibri_model_plan_json(). The counters may be longer in the next call:
 * leave some room.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY, COLIBRI_E_MEMORY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_describe(const colibri_model *model, char *buffer,
                                                  size_t capacity, size_t *length,
                                                  colibri_error *error);

/**
 * Token ids that end a generation by default: union over config.json, generation_config.json and
 * tokenizer_config.json, ascending, ids outside the vocabulary left out.
 *
 * @param ids       [out] NULL with capacity 0 only asks for the count.
 * @param capacity  Elements of ids.
 * @param n_ids     [out] Count, also when the buffer is too small.
 *
 * Threads    Any.
 * Errors     COLIBRI_E_HANDLE, COLIBRI_E_ARGUMENT, COLIBRI_E_CAPACITY.
 * Since      0.1
 */
COLIBRI_API colibri_status colibri_model_stop_ids(const colibri_model *model, int32_t *ids,
                                                  size_t capacity, size_t *n_ids,
                                                  colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_MODEL_H */

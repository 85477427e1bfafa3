/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed snapshots: conversion of any snapshot the library reads, verification, and random ones for
 * measuring. A packed snapshot is a folder like any other, opened with colibri_model_open(), whose
 * experts lie on disk as the kernels read them.
 */
#ifndef COLIBRI_CONVERT_H
#define COLIBRI_CONVERT_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/model.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Formats that matrices stored as floats or FP8 are converted to. Matrices that are INT4 or INT8
 * already keep their values and scales whatever is asked. */
#define COLIBRI_WEIGHTS_DEFAULT 0 /**< see each field */
#define COLIBRI_WEIGHTS_KEEP 1    /**< as the source has them; nothing is rounded */
#define COLIBRI_WEIGHTS_BF16 2
#define COLIBRI_WEIGHTS_INT8 3
#define COLIBRI_WEIGHTS_INT4 4

/** How the scales of INT4 and INT8 groups are found. */
#define COLIBRI_SCALES_DEFAULT 0 /**< as COLIBRI_SCALES_SEARCH */
#define COLIBRI_SCALES_SEARCH 1  /**< least weighted squared error among several trials */
#define COLIBRI_SCALES_ABSMAX 2  /**< the largest magnitude meets the last code */

/** Options of colibri_convert(). Fill with colibri_convert_options_init(). */
typedef struct colibri_convert_options {
  uint32_t struct_size; /**< set by colibri_convert_options_init() */
  int32_t experts;      /**< COLIBRI_WEIGHTS_* of routed experts, not BF16. Default INT4 */
  int32_t dense; /**< COLIBRI_WEIGHTS_* of attention, dense MLPs and shared experts. Default INT8.
                          Routers, norms, biases and the indexer's weights_proj are always kept */
  int32_t embedding;  /**< COLIBRI_WEIGHTS_*: KEEP, BF16 or INT8. Default KEEP */
  int32_t head;       /**< as `embedding`. Default KEEP. A tied head follows `embedding` */
  uint32_t group;     /**< weights that share a scale: 32, 64 or 128. Default 64 */
  int32_t scales;     /**< COLIBRI_SCALES_* */
  uint32_t n_threads; /**< the caller's included; 1..1024. Default: physical cores */
  uint32_t resume;    /**< 1: go on with an interrupted conversion of the same source and options,
                           if there is one; 0 or 1 */
  uint32_t reserved;  /**< 0 */
  uint64_t max_shard_bytes; /**< of one result file, at least 1 MiB; a larger tensor makes a larger
                                     file. Default 4 GiB */
  /** May be NULL. Every byte of the result counts twice: written, then read back. What an earlier
   * run wrote is done from the start. */
  colibri_progress_fn progress;
  void *progress_user; /**< handed to progress; not kept past the call */
} colibri_convert_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_convert_options) of the caller.
 *
 * Threads  Any.
 * Since    0.2
 */
COLIBRI_API void colibri_convert_options_init(colibri_convert_options *options, size_t struct_size);

/** What a conversion did. */
typedef struct colibri_convert_report {
  uint32_t struct_size;          /**< set by the caller */
  uint32_t reserved;             /**< 0 */
  uint64_t source_bytes;         /**< of all tensors of the source */
  uint64_t result_bytes;         /**< of all tensors of the result */
  uint64_t n_tensors;            /**< of the result */
  uint64_t n_kept_matrices;      /**< were INT4 or INT8 and kept their values and scales */
  uint64_t n_quantised_matrices; /**< rounded to INT4 or INT8 */
  uint64_t n_resumed_tensors;    /**< written before this call */
  /** sqrt(sum (w - w')^2 / sum w^2) over the weights w that this call rounded to w', INT4 or INT8;
   * 0 if there were none. */
  double relative_error;
} colibri_convert_report;

/**
 * Converts a snapshot to a packed one. Works in DESTINATION.partial, which becomes DESTINATION when
 * everything is written, read back and found equal. A call that fails or is stopped leaves it for
 * `resume`.
 *
 * @param source       UTF-8 path as for colibri_model_open(). Never written to.
 * @param destination  UTF-8 path of the folder to make; its parent must exist, itself not.
 * @param options      NULL for defaults.
 * @param report       [out] The caller sets struct_size. May be NULL.
 *
 * Threads    Any. Blocks until done. Peak memory: one stored and one packed matrix or expert.
 * Errors     COLIBRI_E_ARGUMENT     an option outside its range; the destination exists or lies in
 *                                   the source; a partial folder exists and `resume` is 0.
 *            COLIBRI_E_NOT_FOUND    no source.
 *            COLIBRI_E_MISMATCH     the partial folder belongs to another source or other options:
 *                                   the source may have changed.
 *            COLIBRI_E_NON_FINITE   a weight is NaN or infinite: tensor, row and column are named.
 *            COLIBRI_E_BUSY         another process is converting to this destination.
 *            COLIBRI_E_IO           a read or write failed, or the disk is too small: needed and
 *                                   free bytes are named. `resume` goes on once there is room.
 *            COLIBRI_E_UNSUPPORTED  the source is packed already, or one that the library does not
 *                                   read.
 *            COLIBRI_E_FORMAT, COLIBRI_E_INCOMPLETE, COLIBRI_E_MEMORY, COLIBRI_E_CANCELLED.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_convert(const char *source, const char *destination,
                                           const colibri_convert_options *options,
                                           colibri_convert_report *report, colibri_error *error);

/** Result of colibri_snapshot_verify(). */
typedef struct colibri_verify_report {
  uint32_t struct_size; /**< set by the caller */
  uint32_t n_damaged;   /**< tensors and side files that differ from their checksum or are absent */
  uint64_t n_tensors;   /**< compared */
  uint64_t n_files;     /**< side files compared */
  uint64_t bytes;       /**< read */
  char first_damaged[256]; /**< name, cut to fit; empty if n_damaged is 0 */
} colibri_verify_report;

/**
 * Reads a packed snapshot and compares every tensor and side file with the checksums it carries.
 *
 * @param path           UTF-8 path as for colibri_model_open().
 * @param n_threads      1..1024; 0: physical cores.
 * @param progress       May be NULL. Counts the bytes that are read.
 * @param progress_user  Handed to progress; not kept.
 * @param report         [out] The caller sets struct_size. Damage is a result, not an error.
 *
 * Threads    Any. Blocks until done.
 * Errors     COLIBRI_E_UNSUPPORTED  the snapshot carries no checksums, or is of a version that this
 *                                   library does not know.
 *            COLIBRI_E_IO           a file's header cannot be read; other bytes that cannot be read
 *                                   are damage.
 *            COLIBRI_E_ARGUMENT, COLIBRI_E_NOT_FOUND, COLIBRI_E_FORMAT, COLIBRI_E_INCOMPLETE,
 *            COLIBRI_E_MEMORY, COLIBRI_E_CANCELLED.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_snapshot_verify(const char *path, uint32_t n_threads,
                                                   colibri_progress_fn progress,
                                                   void *progress_user,
                                                   colibri_verify_report *report,
                                                   colibri_error *error);

/** Options of colibri_snapshot_synthesise(). Fill with colibri_synthesis_options_init(). */
typedef struct colibri_synthesis_options {
  uint32_t struct_size; /**< set by colibri_synthesis_options_init() */
  uint32_t n_layers;    /**< 1..1000. Default 4 */
  const char *shape;    /**< "glm-5.2", "qwen3-30b", "mixtral-8x7b", or "colibri-tiny", the
                             demonstration model, of which 8 layers have a few MiB. Default
                             "qwen3-30b" */
  float skew;           /**< the share of tokens that use the r-th most used expert of a layer falls
                             as r^-skew, but is never above 0.95; 0..2. Default 0, all alike */
  float repeat;         /**< share of experts that two consecutive tokens of a greedy sequence have
                             in common, up to 1; not below what chance and skew give. Default 0.4 */
  uint64_t seed;        /**< of the weights. Default 1 */
  uint32_t n_threads;   /**< the caller's included; 1..1024. Default: physical cores */
  uint32_t reserved;    /**< 0 */
  colibri_progress_fn progress; /**< as in colibri_convert_options */
  void *progress_user;          /**< handed to progress; not kept past the call */
} colibri_synthesis_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_synthesis_options) of the caller.
 *
 * Threads  Any.
 * Since    0.2
 */
COLIBRI_API void colibri_synthesis_options_init(colibri_synthesis_options *options,
                                                size_t struct_size);

/**
 * Writes a packed snapshot with random weights, to measure a machine with before a large download.
 * Experts, router, embedding and head have the sizes of the named model; all layers are MoE layers,
 * and attention is latent attention with about as many bytes of weights as the original's. Tokens t
 * with equal t modulo the integer square root of the vocabulary's size belong to one topic;
 * sequences of different topics have experts in common by chance alone. There is no tokenizer and
 * no end token.
 *
 * The same options give the same bytes. Works in DESTINATION.partial, which becomes DESTINATION
 * when everything is written, read back and found equal; a call that fails or is stopped leaves it,
 * and the same call goes on with it.
 *
 * @param destination  UTF-8 path of the folder to make; its parent must exist, itself not.
 * @param options      NULL for defaults.
 *
 * Threads    Any. Blocks until done.
 * Errors     COLIBRI_E_ARGUMENT   an option outside its range (the smallest possible `repeat` is
 *                                 named); the destination exists.
 *            COLIBRI_E_MISMATCH   the partial folder belongs to other options, or to a conversion.
 *            COLIBRI_E_BUSY       another process works on this destination.
 *            COLIBRI_E_IO         a write failed, or the disk is too small: needed and free bytes
 *                                 are named.
 *            COLIBRI_E_MEMORY, COLIBRI_E_CANCELLED.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_snapshot_synthesise(const char *destination,
                                                       const colibri_synthesis_options *options,
                                                       colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_CONVERT_H */

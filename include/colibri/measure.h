/* SPDX-License-Identifier: Apache-2.0
 *
 * What this machine can do: read bandwidth, multiply-add peaks, and how near the matrix kernels
 * come to them. All figures of one call are measured in one run on the same threads.
 */
#ifndef COLIBRI_MEASURE_H
#define COLIBRI_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "colibri/export.h"
#include "colibri/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Formats of the matrix that is measured. */
#define COLIBRI_MATRIX_DEFAULT 0 /**< as COLIBRI_MATRIX_INT4 */
#define COLIBRI_MATRIX_INT4 1    /**< INT4 in groups of 64 with BF16 scales, int8 activations */
#define COLIBRI_MATRIX_INT8 2    /**< INT8, the same otherwise */
#define COLIBRI_MATRIX_BF16 3    /**< BF16, float activations */

/** Options of colibri_measure_kernels(). Fill with colibri_measure_options_init(). */
typedef struct colibri_measure_options {
  uint32_t struct_size;   /**< set by colibri_measure_options_init() */
  uint32_t n_threads;     /**< 1..1024. Default 1 */
  const char *kernel_set; /**< as in colibri_model_options; not kept past the call */
  int32_t matrix;         /**< COLIBRI_MATRIX_* */
  uint32_t columns;       /**< outputs of one matrix, 1..1048576. Default 2048 */
  uint32_t depth;         /**< inputs of one matrix, 1..1048576. Default 6144 */
  uint32_t min_runs;      /**< measurements of each figure, the best counts; 1..1000. Default 24 */
  uint64_t memory_bytes;  /**< matrices that are read in turn, together; 1 MiB at least. Default
                               1.25 GiB, more than any cache */
} colibri_measure_options;

/**
 * Sets struct_size and leaves every field at its default.
 *
 * @param options      struct_size bytes are written; NULL is ignored.
 * @param struct_size  sizeof(colibri_measure_options) of the caller.
 *
 * Threads  Any.
 * Since    0.2
 */
COLIBRI_API void colibri_measure_options_init(colibri_measure_options *options, size_t struct_size);

/** What bounds the kernels. Every figure is the best of min_runs measurements. */
typedef struct colibri_machine_figures {
  uint32_t struct_size; /**< set by the caller */
  uint32_t n_threads;   /**< at work at once; the machine may give fewer than asked */
  double read_gbps;     /**< 1e9 bytes per second: plain reads of memory_bytes by all threads */
  double peak_gmacs;    /**< 1e9 multiply-adds per second in registers, all threads, of the
                             instructions that the kernel uses */
  double cache_gmacs;   /**< the kernel itself with 32 rows on one matrix that stays in cache */
  char kernel_set[16];  /**< name in use */
  char instruction[32]; /**< whose peak it is, as "vpdpbusd zmm" */
} colibri_machine_figures;

/** One number of rows. */
typedef struct colibri_kernel_figures {
  uint32_t struct_size; /**< set by the library: elements of an array are of the size given */
  uint32_t n_rows;      /**< that share one reading of the matrix, as in `rows` */
  double seconds;       /**< one matrix, all threads together; the least of all runs */
  double gbps;          /**< 1e9 bytes of weights and scales per second */
  double gmacs;         /**< 1e9 multiply-adds per second */
  double relative_time; /**< seconds over those of the first number of rows */
  double roof_share;    /**< max(bytes / read bandwidth, multiply-adds / peak) / seconds */
} colibri_kernel_figures;

/**
 * Measures one matrix kernel as an expert layer uses it: many matrices in turn, each read once for
 * all rows, columns shared among the threads.
 *
 * @param options      NULL for defaults.
 * @param rows         Numbers of rows to measure, each 1..4096.
 * @param n_rows       Elements of rows, 1..64.
 * @param machine      [out] The caller sets struct_size.
 * @param figures      [out] n_rows elements of figure_size bytes, in the order of rows.
 * @param figure_size  sizeof(colibri_kernel_figures).
 *
 * Threads    Any; alone on the machine, or the figures say little. Takes seconds.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_UNSUPPORTED (kernel set), COLIBRI_E_MEMORY.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_measure_kernels(const colibri_measure_options *options,
                                                   const uint32_t *rows, size_t n_rows,
                                                   colibri_machine_figures *machine,
                                                   colibri_kernel_figures *figures,
                                                   size_t figure_size, colibri_error *error);

/**
 * Plain read bandwidth of memory, as colibri_measure_kernels() measures it.
 *
 * @param n_threads     1..1024.
 * @param memory_bytes  1 MiB at least; 0: 1.25 GiB.
 * @param read_gbps     [out] 1e9 bytes per second, the best of several passes.
 *
 * Threads    Any; alone on the machine.
 * Errors     COLIBRI_E_ARGUMENT, COLIBRI_E_MEMORY.
 * Since      0.2
 */
COLIBRI_API colibri_status colibri_measure_read_bandwidth(uint32_t n_threads, uint64_t memory_bytes,
                                                          double *read_gbps, colibri_error *error);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_MEASURE_H */

/* SPDX-License-Identifier: Apache-2.0
 *
 * Status codes and the error struct that carries a text for people.
 */
#ifndef COLIBRI_STATUS_H
#define COLIBRI_STATUS_H

#include <stdint.h>

#include "colibri/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/** 0 is success, a negative number one of the codes below. Codes are never renumbered; a program
 *  must expect codes that it does not know. */
typedef int32_t colibri_status;

#define COLIBRI_OK 0

/* The caller's call is wrong; nothing happened. */
#define COLIBRI_E_ARGUMENT (-1)    /**< an argument is outside its stated range */
#define COLIBRI_E_UNSUPPORTED (-2) /**< this build or version does not offer what was asked */
#define COLIBRI_E_NOT_FOUND (-3)   /**< the named file or object does not exist */
#define COLIBRI_E_HANDLE (-4)      /**< a handle is NULL, closed, or of another type */

/* The call does not fit the moment; nothing happened. */
#define COLIBRI_E_BUSY (-10)      /**< in use by another call, or has live children */
#define COLIBRI_E_STATE (-11)     /**< does not fit the object's present state */
#define COLIBRI_E_CANCELLED (-12) /**< the host asked to stop */

/* Room. */
#define COLIBRI_E_MEMORY (-20)   /**< memory could not be allocated */
#define COLIBRI_E_BUDGET (-21)   /**< the plan does not fit the given budget */
#define COLIBRI_E_CAPACITY (-22) /**< slots, rows, positions or queue places are used up */
#define COLIBRI_E_CONTEXT (-23)  /**< prompt and requested tokens do not fit the context */

/* Content of files. */
#define COLIBRI_E_FORMAT (-30)     /**< a file does not have the form it claims */
#define COLIBRI_E_INCOMPLETE (-31) /**< a snapshot lacks files or tensors */
#define COLIBRI_E_MISMATCH (-32)   /**< saved state belongs to something else */

/* Outside world. */
#define COLIBRI_E_IO (-40) /**< a read or write failed */

/* Numbers. */
#define COLIBRI_E_NON_FINITE (-50) /**< a request's logits are not finite */

/* Ours. */
#define COLIBRI_E_INTERNAL (-90) /**< a defect of the library; please report it */

/**
 * Text of a failure, owned by the caller, usually on the stack:
 *
 *     colibri_error error = COLIBRI_ERROR_INIT;
 *     if (colibri_model_open(path, NULL, &model, &error) != COLIBRI_OK) puts(error.message);
 *
 * Every fallible function takes one as its last parameter; NULL is allowed. On success code is 0
 * and message is empty. A struct_size below the first version's or above 4096 leaves the struct
 * untouched.
 */
typedef struct colibri_error {
  uint32_t struct_size; /**< sizeof(colibri_error), set by the caller */
  int32_t code;         /**< the value that the function returned */
  char message[248];    /**< UTF-8, NUL-terminated; what was wrong, with which value, what to do */
} colibri_error;

/* clang-format off */
#define COLIBRI_ERROR_INIT {sizeof(colibri_error), 0, {0}}
/* clang-format on */

/**
 * Name of a code, "COLIBRI_E_IO"; "COLIBRI_E_UNKNOWN" for a number that is no code.
 *
 * Ownership  Static text, valid for ever.
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API const char *colibri_status_name(colibri_status status);

/**
 * One English sentence on what a code means in general; the error struct says it of the case at
 * hand.
 *
 * Ownership  Static text, valid for ever.
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API const char *colibri_status_text(colibri_status status);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_STATUS_H */

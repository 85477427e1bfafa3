/* SPDX-License-Identifier: Apache-2.0
 *
 * Version of the header at compile time and of the library at run time.
 */
#ifndef COLIBRI_VERSION_H
#define COLIBRI_VERSION_H

#include <stdint.h>

#include "colibri/export.h"

#define COLIBRI_VERSION_MAJOR 0
#define COLIBRI_VERSION_MINOR 2
#define COLIBRI_VERSION_PATCH 0

/* Raised with every incompatible change of the ABI, and only then. Bindings refuse a library whose
 * colibri_abi_version() differs from the number they were written for. */
#define COLIBRI_ABI_VERSION 0

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Version of the loaded library, "major.minor.patch".
 *
 * Ownership  Static text, valid for ever.
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API const char *colibri_version(void);

/**
 * COLIBRI_ABI_VERSION of the loaded library.
 *
 * Threads    Any.
 * Since      0.1
 */
COLIBRI_API uint32_t colibri_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif /* COLIBRI_VERSION_H */

/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks what the library exports. Everything else in it is hidden.
 */
#ifndef COLIBRI_EXPORT_H
#define COLIBRI_EXPORT_H

#if defined(_WIN32)
#if defined(COLIBRI_BUILDING)
#define COLIBRI_API __declspec(dllexport)
#else
#define COLIBRI_API __declspec(dllimport)
#endif
#else
#define COLIBRI_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__) || defined(__clang__)
#define COLIBRI_DEPRECATED(successor) __attribute__((deprecated("use " successor)))
#else
#define COLIBRI_DEPRECATED(successor)
#endif

#endif /* COLIBRI_EXPORT_H */

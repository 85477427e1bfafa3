/* SPDX-License-Identifier: Apache-2.0
 *
 * One of three objects that include every public header and are linked into one program: a header
 * that defines something would define it three times.
 */
#include "colibri/colibri.h"

int colibri_first(void);

int colibri_first(void) {
  colibri_error error = COLIBRI_ERROR_INIT;
  return colibri_batch_clear(NULL, &error) == COLIBRI_E_HANDLE ? 0 : 1;
}

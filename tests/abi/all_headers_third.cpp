// SPDX-License-Identifier: Apache-2.0
//
// The third object, in C++: names have C linkage and the initialiser of errors works there, too.

#include "colibri/colibri.h"

extern "C" int colibri_third(void);

int colibri_third(void) {
  colibri_error error = COLIBRI_ERROR_INIT;
  return colibri_kv_slot_truncate(nullptr, 0, &error) == COLIBRI_E_HANDLE ? 0 : 1;
}

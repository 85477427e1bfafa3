// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/status.h: names and texts of codes.

#include "colibri/status.h"

#include "lib/base/status.h"

const char *colibri_status_name(colibri_status status) {
  return colibri::status_code_name(status);
}

const char *colibri_status_text(colibri_status status) {
  return colibri::status_code_text(status);
}

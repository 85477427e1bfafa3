// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/version.h: what this library is, as compiled.

#include "colibri/version.h"

#define COLIBRI_TEXT_OF(number) #number
#define COLIBRI_VERSION_TEXT(major, minor, patch) \
  COLIBRI_TEXT_OF(major) "." COLIBRI_TEXT_OF(minor) "." COLIBRI_TEXT_OF(patch)

const char *colibri_version(void) {
  return COLIBRI_VERSION_TEXT(COLIBRI_VERSION_MAJOR, COLIBRI_VERSION_MINOR, COLIBRI_VERSION_PATCH);
}

uint32_t colibri_abi_version(void) {
  return COLIBRI_ABI_VERSION;
}

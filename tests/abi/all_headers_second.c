/* SPDX-License-Identifier: Apache-2.0
 *
 * The second object, and the program.
 */
#include "colibri/colibri.h"

int colibri_first(void);
int colibri_third(void);

int main(void) {
  return colibri_first() + colibri_third() + (colibri_model_close(NULL, NULL) != COLIBRI_OK);
}

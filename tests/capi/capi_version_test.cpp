// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/version.h.

#include <string>

#include "colibri/version.h"
#include "tests/support/catch.h"

TEST_CASE("the library says the version of the header it was built with") {
  const std::string expected = std::to_string(COLIBRI_VERSION_MAJOR) + "." +
                               std::to_string(COLIBRI_VERSION_MINOR) + "." +
                               std::to_string(COLIBRI_VERSION_PATCH);
  CHECK(colibri_version() == expected);
  CHECK(colibri_abi_version() == COLIBRI_ABI_VERSION);
}

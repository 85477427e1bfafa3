// SPDX-License-Identifier: Apache-2.0
//
// Catch2 of either major version (Debian 12 packages version 2).

#pragma once

#if COLIBRI_CATCH_MAJOR == 3
#include <catch2/catch_all.hpp>
using Catch::Approx;  // global in version 2
#else
#include <catch2/catch.hpp>
#endif

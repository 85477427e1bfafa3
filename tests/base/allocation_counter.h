// SPDX-License-Identifier: Apache-2.0
//
// Counts every heap allocation of the test program, malloc and new, also those of shared libraries.

#pragma once

#include <cstddef>

namespace colibri::test {

size_t count_allocations();

}  // namespace colibri::test

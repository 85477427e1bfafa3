// SPDX-License-Identifier: Apache-2.0
//
// What the tests of whole backend operations share: one scratch shape, and the run of an operation
// with every kernel set and several numbers of threads.

#pragma once

#include <functional>
#include <vector>

#include "lib/backend/backend.h"
#include "tests/cpu/kernel_cases.h"

namespace colibri::test {

using Floats = std::vector<float>;
using Operation = std::function<Floats(Backend &, Backend::Scratch &)>;

// Up to 40 rows, 20 heads of 48 and 32, experts of 160, 4 of 32.
ScratchShape scratch_shape();

// Runs the operation with every kernel set and number of threads; all results must have the bits of
// the first.
Floats run_everywhere(const Operation &operation);

LinearTask linear_task(const TestMatrix &matrix, const ActivationRows &rows, float *y,
                       bool uses_integers);

// Rows first .. first + n - 1 alone.
ActivationRows slice(ActivationRows rows, size_t first, size_t n);

}  // namespace colibri::test

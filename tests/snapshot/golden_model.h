// SPDX-License-Identifier: Apache-2.0
//
// A golden model whose tensors and config a test may bend, as TinyModel: for families that TinyModel
// has none of.

#pragma once

#include <string>

#include "tests/snapshot/fixture.h"

namespace colibri::test {

// The folder below COLIBRI_TEST_DATA. Its model is in one file.
TinyModel read_golden_model(const std::string &folder);

}  // namespace colibri::test

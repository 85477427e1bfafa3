// SPDX-License-Identifier: Apache-2.0
//
// What a fuzz target offers: the entry point of libFuzzer, and seeds that the driver mutates where
// there is no libFuzzer. A target must return for every input; a crash, a sanitizer report or an
// exception other than the ones it expects is the finding.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

namespace colibri::test {

// Small inputs of every kind that was ever of interest: sound ones and one of each fault.
std::vector<std::string> fuzz_seeds();

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// What a model folder holds beside its weights: config.json, tokenizer files, templates, licence,
// notes. A converted snapshot takes all of it along.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colibri {

constexpr uint64_t kMaxSideFileBytes = 64ull << 20;
constexpr size_t kMaxSideFiles = 256;

// Names and contents of the plain files in the folder, links followed, in bytewise order of names.
// Left out: weights of any framework and lists of their parts, hidden files, names that are not
// UTF-8. Throws Error: kUnsupported for a file that is too large, or too many files (each says what
// to do); kIo.
std::vector<std::pair<std::string, std::vector<uint8_t>>> read_side_files(
    const std::string &directory);

}  // namespace colibri

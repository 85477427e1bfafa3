// SPDX-License-Identifier: Apache-2.0
//
// What the readers of a tokenizer.json's sections have in common.

#pragma once

#include <string_view>

namespace colibri {

// Sequences may nest so deep; published files use one level.
constexpr int kMaxSequenceDepth = 8;

// For "%.*s": a text of the file, cut so that a message keeps room for its reason.
constexpr int print_length(std::string_view text) noexcept {
  return static_cast<int>(text.size() < 40 ? text.size() : 40);
}

}  // namespace colibri

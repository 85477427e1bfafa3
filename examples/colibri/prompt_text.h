// SPDX-License-Identifier: Apache-2.0
//
// Texts to ids and back, as the subcommands need them.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "colibri/tokenizer.h"

namespace colibri::command {

struct PromptForm {
  bool is_raw = false;          // no prefix
  bool allows_control = false;  // text that spells a control token becomes that token
};

// Ids of `text`, nothing added. control: COLIBRI_CONTROL_*.
std::vector<int32_t> encode_text(const colibri_tokenizer *tokenizer, std::string_view text,
                                 int32_t control);

// Ids of a prompt: the tokenizer's prefix, then the text. Throws std::runtime_error if there is no
// tokenizer.
std::vector<int32_t> encode_prompt(const colibri_tokenizer *tokenizer, std::string_view text,
                                   const PromptForm &form);

std::string decode_ids(const colibri_tokenizer *tokenizer, std::span<const int32_t> ids,
                       bool skips_special);

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0
//
// Case files of a tokenizer ({text, ids, ids_plain, decoded}) and where the vocabularies of the
// tests are.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace colibri::test {

struct TokenizerCase {
  std::string text;
  std::vector<int32_t> ids;        // control tokens recognised
  std::vector<int32_t> ids_plain;  // control tokens read as text
  std::string decoded;
  std::string decoded_skip_special;  // empty if the file has none
  bool has_skip_special;
};

std::vector<TokenizerCase> read_cases(const std::string &path);

// The vocabulary that is part of the repository.
std::string tiny_tokenizer_path();
std::string tiny_cases_path();
// Folder of small vocabularies, one of each kind (data/make_tokenizers.py).
std::string kinds_path();

// Folder of a vocabulary that is not part of the repository, below $COLIBRI_TOKENIZERS; nullopt if
// that is not set.
std::optional<std::string> find_vocabulary_folder(const std::string &name);

std::vector<int32_t> encode(const Tokenizer &tokenizer, std::string_view text,
                            ControlTokens control = ControlTokens::kNotSpecial);
std::string decode(const Tokenizer &tokenizer, const std::vector<int32_t> &ids,
                   bool skip_special = false);

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// What a Tokenizer consists of. For the sources of lib/tokenizer only.

#pragma once

#include <cstdint>
#include <vector>

#include "lib/tokenizer/added_tokens.h"
#include "lib/tokenizer/bpe_model.h"
#include "lib/tokenizer/normalizer.h"
#include "lib/tokenizer/pre_tokenizer.h"
#include "lib/tokenizer/token_map.h"
#include "lib/tokenizer/token_table.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

// Nothing changes after reading.
struct Tokenizer::Impl {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  TokenFinder raw_tokens;         // added tokens that are looked for in the text as it comes
  TokenFinder normalized_tokens;  // those that are looked for after normalisation
  TokenMap added_ids;             // added tokens by text
  DecoderRules decoder;
  TokenTable tokens;
  std::vector<int32_t> prefix_ids;
  ChatTemplate chat_template;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// A model has only ever seen sequences that begin with its prefix (BOS, or [gMASK]<sop> of GLM);
// without it its first words are poor.

#include "examples/colibri/prompt_text.h"

#include <stdexcept>

#include "examples/colibri/colibri_raii.h"

namespace colibri::command {
namespace {

std::vector<int32_t> read_prefix(const colibri_tokenizer *tokenizer) {
  return read_sized<std::vector<int32_t>>([&](int32_t *ids, size_t capacity, size_t *n_ids) {
    call(colibri_tokenizer_prefix, tokenizer, ids, capacity, n_ids);
  });
}

}  // namespace

std::vector<int32_t> encode_text(const colibri_tokenizer *tokenizer, std::string_view text,
                                 int32_t control) {
  return read_sized<std::vector<int32_t>>([&](int32_t *ids, size_t capacity, size_t *n_ids) {
    call(colibri_tokenizer_encode, tokenizer, text.data(), text.size(), control, ids, capacity,
         n_ids);
  });
}

std::vector<int32_t> encode_prompt(const colibri_tokenizer *tokenizer, std::string_view text,
                                   const PromptForm &form) {
  if (tokenizer == nullptr) {
    throw std::runtime_error("the model has no tokenizer.json; give the prompt as --ids 1,2,3");
  }
  std::vector<int32_t> ids = form.is_raw ? std::vector<int32_t>() : read_prefix(tokenizer);
  const std::vector<int32_t> body = encode_text(
      tokenizer, text, form.allows_control ? COLIBRI_CONTROL_ALLOWED : COLIBRI_CONTROL_PLAIN);
  ids.insert(ids.end(), body.begin(), body.end());
  if (ids.empty()) throw std::runtime_error("the prompt is empty; give at least one character");
  return ids;
}

std::string decode_ids(const colibri_tokenizer *tokenizer, std::span<const int32_t> ids,
                       bool skips_special) {
  return read_sized<std::string>([&](char *text, size_t capacity, size_t *text_bytes) {
    call(colibri_tokenizer_decode, tokenizer, ids.data(), ids.size(), skips_special ? 1 : 0, text,
         capacity, text_bytes);
  });
}

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0
//
// Ids to text, one by one or at once; decode() is a stream that is flushed, so the two cannot
// differ.

#include "lib/base/utf8.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/tokenizer/tokenizer_impl.h"

namespace colibri {
namespace {

// Moves whole characters from *pending to *text. A bad part becomes one U+FFFD, or one for each of
// its bytes. The start of a character at the end stays, or is a bad part if nothing can follow.
void drain_characters(bool has_mark_per_byte, bool is_end, std::string *pending,
                      std::string *text) {
  std::string_view rest = *pending;
  while (!rest.empty()) {
    const size_t n_valid = count_valid_utf8(rest);
    text->append(rest.substr(0, n_valid));
    rest.remove_prefix(n_valid);
    if (rest.empty()) break;
    const Utf8Step step = step_utf8(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete && !is_end) break;
    const size_t n_marks = has_mark_per_byte ? step.length : 1;
    for (size_t i = 0; i < n_marks; ++i) text->append(kReplacementText);
    rest.remove_prefix(step.length);
  }
  pending->erase(0, pending->size() - rest.size());
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer &tokenizer, bool skip_special) noexcept
    : tokenizer_(&tokenizer), skips_special_(skip_special) {}

void StreamDecoder::push(int32_t id, std::string *text) {
  const TokenTable &tokens = tokenizer_->impl_->tokens;
  if (!tokens.contains(id) || (skips_special_ && tokens.is_special(id))) return;
  const bool has_byte_fallback = tokenizer_->impl_->decoder.has_byte_fallback;
  const size_t old_size = text->size();
  // With byte fallback only byte tokens make up characters together; any other token ends them.
  if (has_byte_fallback && !tokens.is_byte(id)) drain_characters(true, true, &pending_, text);
  pending_.append(tokens.bytes(id));
  drain_characters(has_byte_fallback, false, &pending_, text);
  strip_start(old_size, text);
}

void StreamDecoder::flush(std::string *text) {
  const size_t old_size = text->size();
  drain_characters(tokenizer_->impl_->decoder.has_byte_fallback, true, &pending_, text);
  strip_start(old_size, text);
  n_stripped_ = 0;
  is_at_start_ = true;
}

// Takes off what the decoder strips from the start of a text, also when it comes in several pieces.
void StreamDecoder::strip_start(size_t begin, std::string *text) {
  if (!is_at_start_) return;
  const DecoderRules &rules = tokenizer_->impl_->decoder;
  size_t end = begin;
  while (n_stripped_ < rules.n_stripped &&
         text->compare(end, rules.stripped.size(), rules.stripped) == 0) {
    end += rules.stripped.size();
    ++n_stripped_;
  }
  text->erase(begin, end - begin);
  if (text->size() > begin) is_at_start_ = false;
}

std::string Tokenizer::decode(const int32_t *ids, size_t n_ids, bool skip_special) const {
  StreamDecoder stream(*this, skip_special);
  std::string text;
  for (size_t i = 0; i < n_ids; ++i) stream.push(ids[i], &text);
  stream.flush(&text);
  return text;
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// A byte trie with a table for the first byte. Nearly every position of a text ends at that table;
// the rest walks at most the length of the longest token.

#include "lib/tokenizer/added_tokens.h"

#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/bpe_model.h"
#include "lib/tokenizer/unicode.h"

namespace colibri {
namespace {

bool read_flag(const JsonValue &entry, const char *key, size_t index, const std::string &name) {
  const JsonValue value = entry.get(key);
  if (value.is_null()) return false;
  if (const std::optional<bool> flag = value.as_boolean()) return *flag;
  throw_error(StatusCode::kFormat, "%s: added_tokens[%zu].%s is not true or false", name.c_str(),
              index, key);
}

AddedToken read_added_token(const JsonValue &entry, size_t index, const std::string &name) {
  const std::optional<int64_t> id = entry.get("id").as_integer();
  const std::optional<std::string_view> text = entry.get("content").as_string();
  if (!id || *id < 0 || *id > kMaxTokenId) {
    throw_error(StatusCode::kFormat, "%s: added_tokens[%zu].id is not an id from 0 to %d",
                name.c_str(), index, kMaxTokenId);
  }
  if (!text || text->empty() || text->size() > kMaxAddedTokenBytes) {
    throw_error(StatusCode::kFormat,
                "%s: added_tokens[%zu].content is not a text of 1 to %zu bytes", name.c_str(),
                index, kMaxAddedTokenBytes);
  }
  return {static_cast<int32_t>(*id),
          std::string(*text),
          read_flag(entry, "special", index, name),
          read_flag(entry, "normalized", index, name),
          read_flag(entry, "lstrip", index, name),
          read_flag(entry, "rstrip", index, name),
          read_flag(entry, "single_word", index, name)};
}

size_t begin_of_last_character(std::string_view text) noexcept {
  size_t i = text.size() - 1;
  while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80) --i;
  return i;
}

bool is_inside_word(std::string_view text, size_t begin, size_t end) noexcept {
  const std::string_view before = text.substr(0, begin);
  const std::string_view after = text.substr(end);
  return (!before.empty() &&
          is_word_character(decode_utf8(before.substr(begin_of_last_character(before))))) ||
         (!after.empty() && is_word_character(decode_utf8(after)));
}

size_t skip_space_left(std::string_view text, size_t begin, size_t limit) noexcept {
  while (begin > limit) {
    const size_t i = begin_of_last_character(text.substr(0, begin));
    if (i < limit || !is_white_space(decode_utf8(text.substr(i)))) break;
    begin = i;
  }
  return begin;
}

size_t skip_space_right(std::string_view text, size_t end) noexcept {
  while (end < text.size() && is_white_space(decode_utf8(text.substr(end)))) {
    end += utf8_length(text[end]);
  }
  return end;
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonValue &section, const std::string &name) {
  std::vector<AddedToken> tokens;
  if (section.is_null()) return tokens;
  if (!section.is_array()) {
    throw_error(StatusCode::kFormat, "%s: added_tokens is not an array", name.c_str());
  }
  tokens.reserve(section.size());
  for (size_t i = 0; i < section.size(); ++i) {
    tokens.push_back(read_added_token(section.at(i), i, name));
  }
  return tokens;
}

int32_t TokenFinder::find_child(int32_t node, uint8_t byte) const noexcept {
  int32_t child = nodes_[static_cast<size_t>(node)].first_child;
  while (child >= 0 && nodes_[static_cast<size_t>(child)].byte != byte) {
    child = nodes_[static_cast<size_t>(child)].next_sibling;
  }
  return child;
}

void TokenFinder::add(std::string_view text, const AddedToken &token) {
  if (text.empty()) return;
  int32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t child = find_child(node, byte);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({byte, -1, nodes_[static_cast<size_t>(node)].first_child, -1});
      nodes_[static_cast<size_t>(node)].first_child = child;
      if (node == 0) roots_[byte] = child;
    }
    node = child;
  }
  Node &last = nodes_[static_cast<size_t>(node)];
  if (last.token >= 0) return;
  last.token = static_cast<int32_t>(tokens_.size());
  const bool is_space = skip_space_right(text, 0) == text.size() && !token.is_special;
  has_spaces_ = has_spaces_ || is_space;
  tokens_.push_back({token.id, token.is_special, token.strips_left, token.strips_right,
                     token.is_single_word, is_space});
}

bool TokenFinder::is_taken(int32_t token, ControlTokens control) const noexcept {
  const Flags &flags = tokens_[static_cast<size_t>(token)];
  if (control == ControlTokens::kPlain) return flags.is_space;
  return control == ControlTokens::kAllowed || !flags.is_special;
}

TokenFinder::Match TokenFinder::match_at(std::string_view text, size_t position,
                                         ControlTokens control) const noexcept {
  Match match;
  int32_t node = roots_[static_cast<uint8_t>(text[position])];
  for (size_t length = 1; node >= 0; ++length) {
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0 && is_taken(token, control)) match = {token, length};
    if (position + length >= text.size()) break;
    node = find_child(node, static_cast<uint8_t>(text[position + length]));
  }
  return match;
}

// A token inside a word is text, and the search goes on behind it.
void TokenFinder::split(std::string_view text, ControlTokens control,
                        FunctionRef<void(const TokenPart &part)> visit) const {
  size_t done = 0;
  const bool has_none = is_empty() || (control == ControlTokens::kPlain && !has_spaces_);
  size_t i = has_none ? text.size() : 0;
  while (i < text.size()) {
    if (roots_[static_cast<uint8_t>(text[i])] < 0) {
      ++i;
      continue;
    }
    const Match match = match_at(text, i, control);
    if (match.token < 0) {
      ++i;
      continue;
    }
    const Flags &token = tokens_[static_cast<size_t>(match.token)];
    size_t begin = i;
    size_t end = i + match.length;
    i = end;
    if (token.is_single_word && is_inside_word(text, begin, end)) continue;
    if (token.strips_left) begin = skip_space_left(text, begin, done);
    if (token.strips_right) end = skip_space_right(text, end);
    if (done < begin) visit({-1, done, begin});
    visit({token.id, begin, end});
    done = end;
  }
  if (done < text.size()) visit({-1, done, text.size()});
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// One Knuth-Morris-Pratt automaton for each stop string. The largest state of all is the length of
// the longest end of the stream that begins a stop string, which is what must be held back. A joint
// automaton would be faster for many strings; at some four bytes a token and at most 64 strings it
// would not be noticed.

#include "lib/runtime/stop_matcher.h"

#include <algorithm>
#include <cassert>

namespace colibri {

StopMatcher::StopMatcher(std::span<const std::string> stop_strings) {
  patterns_.reserve(stop_strings.size());
  size_t longest = 0;
  for (const std::string &text : stop_strings) {
    assert(!text.empty());
    longest = std::max(longest, text.size());
    Pattern pattern;
    pattern.text = text;
    pattern.fallback.assign(text.size() + 1, 0);
    uint32_t length = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (length > 0 && text[i] != text[length]) length = pattern.fallback[length];
      if (text[i] == text[length]) ++length;
      pattern.fallback[i + 1] = length;
    }
    patterns_.push_back(std::move(pattern));
  }
  if (longest != 0) held_.reserve(longest + kUsualPieceBytes);
}

void StopMatcher::advance(Pattern *pattern, char byte) noexcept {
  // A complete match ends the stream, so n_matched is below the length here.
  uint32_t length = pattern->n_matched;
  while (length > 0 && pattern->text[length] != byte) length = pattern->fallback[length];
  if (pattern->text[length] == byte) ++length;
  pattern->n_matched = length;
}

void StopMatcher::restart() noexcept {
  held_.clear();
  for (Pattern &pattern : patterns_) pattern.n_matched = 0;
}

bool StopMatcher::push(std::string_view piece, std::string *text) {
  if (patterns_.empty()) {
    text->append(piece);
    return false;
  }
  // Room first: after a failure to allocate the state is as before.
  text->reserve(text->size() + held_.size() + piece.size());
  size_t end = held_.size();
  held_.append(piece);
  for (const char byte : piece) {
    ++end;
    size_t match = 0;
    for (Pattern &pattern : patterns_) {
      advance(&pattern, byte);
      if (pattern.n_matched == pattern.text.size()) match = std::max(match, pattern.text.size());
    }
    if (match != 0) {
      text->append(held_, 0, end - match);
      restart();
      return true;
    }
  }
  size_t n_held = 0;
  for (const Pattern &pattern : patterns_) n_held = std::max<size_t>(n_held, pattern.n_matched);
  const size_t n_shown = held_.size() - n_held;
  text->append(held_, 0, n_shown);
  held_.erase(0, n_shown);
  return false;
}

void StopMatcher::flush(std::string *text) {
  text->append(held_);
  restart();
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// SplitRegex: a compiled pattern of a tokenizer file, and RegexMatcher, which searches with it.
// split_regex.cpp is the only includer of PCRE2. Matching effort is limited, so a hostile pattern
// ends in an error.

#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lib/base/utf8.h"

namespace colibri {

class SplitRegex {
 public:
  // A pattern in Oniguruma syntax, or a text that matches itself. `name` leads messages. Throws
  // Error(kUnsupported) for a pattern that cannot be compiled.
  static SplitRegex compile(std::string_view pattern, const std::string &name);
  static SplitRegex compile_literal(std::string_view text, const std::string &name);
  SplitRegex(SplitRegex &&) noexcept;
  SplitRegex &operator=(SplitRegex &&) noexcept;
  ~SplitRegex();

 private:
  friend class RegexMatcher;
  struct Code;
  explicit SplitRegex(std::unique_ptr<Code> code) noexcept;
  std::unique_ptr<Code> code_;
};

struct MatchRange {
  size_t begin;
  size_t end;
};

// One per thread and pattern; the pattern must outlive it. Making one costs two allocations.
class RegexMatcher {
 public:
  explicit RegexMatcher(const SplitRegex &regex);
  RegexMatcher(RegexMatcher &&) noexcept;
  ~RegexMatcher();

  // The first match in `text` (valid UTF-8) that begins at or after `from`, a character boundary.
  // False if there is none. Throws Error(kFormat) when the pattern takes too much effort.
  bool find(std::string_view text, size_t from, MatchRange *match);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Calls visit(begin, end, is_match) for all parts of `text` in order: matches, and what lies
// between. An empty match is no part but cuts; it is not taken right after another match.
template <typename Visitor>
void for_each_part(RegexMatcher &matcher, std::string_view text, Visitor &&visit) {
  size_t done = 0;  // everything before is visited
  size_t from = 0;
  bool has_match = false;
  MatchRange match;
  while (from <= text.size() && matcher.find(text, from, &match)) {
    if (match.begin == match.end && has_match && match.end == done) {
      if (from >= text.size()) break;
      from += utf8_length(text[from]);
      continue;
    }
    if (match.begin > done) visit(done, match.begin, false);
    if (match.end > match.begin) visit(match.begin, match.end, true);
    done = match.end;
    from = match.end;
    has_match = true;
  }
  if (done < text.size()) visit(done, text.size(), false);
}

}  // namespace colibri

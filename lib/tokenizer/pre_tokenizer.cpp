// SPDX-License-Identifier: Apache-2.0
//
// Applying the stages. Pieces go down the chain one by one without being collected, so a long text
// costs no memory; the recursion is as deep as there are stages.

#include "lib/tokenizer/pre_tokenizer.h"

namespace colibri {

struct PreTokenizer::Run {
  const PreTokenizer &splitter;
  Matchers &matchers;
  FunctionRef<void(std::string_view piece)> visit;

  void apply(size_t stage_index, std::string_view piece, bool starts_text) {
    if (piece.empty()) return;
    if (stage_index == splitter.stages_.size()) {
      visit(piece);
      return;
    }
    const Stage &stage = splitter.stages_[stage_index];
    switch (stage.kind) {
      case Kind::kSplit:
        apply_split(stage, stage_index, piece, starts_text);
        break;
      case Kind::kPrefixSpace:
        if (piece[0] == ' ') {
          apply(stage_index + 1, piece, starts_text);
        } else {
          apply(stage_index + 1, std::string(" ").append(piece), starts_text);
        }
        break;
      case Kind::kMarkSpaces:
        apply(stage_index + 1, mark_spaces(stage, piece, starts_text), starts_text);
        break;
    }
  }

  static std::string mark_spaces(const Stage &stage, std::string_view piece, bool starts_text) {
    std::string marked;
    const bool has_prefix =
        stage.prefix == Prefix::kAlways || (stage.prefix == Prefix::kFirst && starts_text);
    if (has_prefix && piece[0] != ' ' && piece.substr(0, stage.mark.size()) != stage.mark) {
      marked = stage.mark;
    }
    for (const char c : piece) {
      if (c == ' ') {
        marked += stage.mark;
      } else {
        marked += c;
      }
    }
    return marked;
  }

  void apply_split(const Stage &stage, size_t stage_index, std::string_view text,
                   bool starts_text) {
    const auto pass_on = [&](size_t begin, size_t end) {
      apply(stage_index + 1, text.substr(begin, end - begin), starts_text && begin == 0);
    };
    RegexMatcher &matcher = matchers[stage.regex];
    if (stage.behavior == Behavior::kIsolated || stage.behavior == Behavior::kRemoved) {
      const bool keeps_matches = stage.behavior == Behavior::kIsolated;
      for_each_part(matcher, text, [&](size_t begin, size_t end, bool is_match) {
        if (keeps_matches || is_match == stage.is_inverted) pass_on(begin, end);
      });
      return;
    }
    // One part is held back until it is known whether the next one joins it.
    bool is_held = false;
    bool held_is_match = false;
    size_t held_begin = 0;
    size_t held_end = 0;
    for_each_part(matcher, text, [&](size_t begin, size_t end, bool found) {
      const bool is_match = found != stage.is_inverted;
      if (is_held && joins(stage.behavior, held_is_match, is_match)) {
        held_end = end;
      } else {
        if (is_held) pass_on(held_begin, held_end);
        is_held = true;
        held_begin = begin;
        held_end = end;
      }
      held_is_match = is_match;
    });
    if (is_held) pass_on(held_begin, held_end);
  }

  static bool joins(Behavior behavior, bool left_is_match, bool right_is_match) noexcept {
    if (behavior == Behavior::kMergedLeft) return right_is_match && !left_is_match;
    if (behavior == Behavior::kMergedRight) return left_is_match && !right_is_match;
    return left_is_match == right_is_match;
  }
};

PreTokenizer::Matchers PreTokenizer::make_matchers() const {
  Matchers matchers;
  matchers.reserve(regexes_.size());
  for (const SplitRegex &regex : regexes_) matchers.emplace_back(regex);
  return matchers;
}

void PreTokenizer::split(std::string_view text, bool starts_text, Matchers *matchers,
                         FunctionRef<void(std::string_view piece)> visit) const {
  Run{*this, *matchers, visit}.apply(0, text, starts_text);
}

}  // namespace colibri

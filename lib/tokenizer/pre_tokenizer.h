// SPDX-License-Identifier: Apache-2.0
//
// PreTokenizer: the "pre_tokenizer" section of a tokenizer.json as a chain of stages, each of which
// cuts or changes the pieces of the one before. What ByteLevel does to the alphabet is left to
// BpeModel.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/function_ref.h"
#include "lib/snapshot/json.h"
#include "lib/tokenizer/split_regex.h"

namespace colibri {

class PreTokenizer {
 public:
  // Search state of one encode call; one per thread.
  using Matchers = std::vector<RegexMatcher>;

  PreTokenizer() noexcept = default;  // one piece as it is
  // Throws Error: kUnsupported (a kind or behaviour by name), kFormat.
  static PreTokenizer read(const JsonValue &section, const std::string &name);

  bool is_byte_level() const noexcept { return is_byte_level_; }
  Matchers make_matchers() const;
  // Calls visit for all pieces of a non-empty text in order. starts_text: nothing of the input
  // stood before it. A piece is valid during its visit only.
  void split(std::string_view text, bool starts_text, Matchers *matchers,
             FunctionRef<void(std::string_view piece)> visit) const;

 private:
  enum class Behavior : uint8_t { kIsolated, kRemoved, kMergedLeft, kMergedRight, kContiguous };
  enum class Kind : uint8_t { kSplit, kPrefixSpace, kMarkSpaces };
  enum class Prefix : uint8_t { kAlways, kFirst, kNever };
  struct Stage {
    Kind kind;
    Behavior behavior = Behavior::kIsolated;
    bool is_inverted = false;
    size_t regex = 0;                // kSplit: index in regexes_
    std::string mark = {};           // kMarkSpaces: what a space becomes
    Prefix prefix = Prefix::kNever;  // kMarkSpaces: where a mark is put in front
  };
  struct Run;

  void read_stages(const JsonValue &section, const std::string &name, int depth);
  void read_split(const JsonValue &section, const std::string &name);
  void read_metaspace(const JsonValue &section, const std::string &name);
  void read_byte_level(const JsonValue &section, const std::string &name);
  void add_split(SplitRegex regex, Behavior behavior, bool is_inverted);

  bool is_byte_level_ = false;
  std::vector<Stage> stages_;
  std::vector<SplitRegex> regexes_;
};

}  // namespace colibri

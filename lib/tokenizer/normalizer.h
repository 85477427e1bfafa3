// SPDX-License-Identifier: Apache-2.0
//
// Normalizer: the "normalizer" section of a tokenizer.json as a list of text changes.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/snapshot/json.h"
#include "lib/tokenizer/split_regex.h"

namespace colibri {

class Normalizer {
 public:
  Normalizer() noexcept = default;  // changes nothing
  // Throws Error: kUnsupported (a kind that is not NFC, Prepend, Replace or Sequence, by name),
  // kFormat.
  static Normalizer read(const JsonValue &section, const std::string &name);

  bool is_identity() const noexcept { return steps_.empty(); }
  // Writes the normal form of `text` (valid UTF-8) to *normalized, whose old content is lost.
  void normalize(std::string_view text, std::string *normalized) const;

 private:
  enum class Kind : uint8_t { kNfc, kPrepend, kReplaceText, kReplaceRegex };
  struct Step {
    Kind kind;
    std::string from;               // kReplaceText
    std::string to;                 // what is prepended or put in place
    std::vector<SplitRegex> regex;  // one for kReplaceRegex, else none
  };
  void read_steps(const JsonValue &section, const std::string &name, int depth);
  static void apply(const Step &step, std::string_view text, std::string *result);

  std::vector<Step> steps_;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The "pre_tokenizer" section to stages. Kinds: Sequence, Split, ByteLevel, Digits, Metaspace.

#include "lib/base/status.h"
#include "lib/tokenizer/pre_tokenizer.h"
#include "lib/tokenizer/section.h"

namespace colibri {
namespace {

constexpr size_t kMaxStages = 32;

// The split of GPT-2, which ByteLevel applies by itself when use_regex is set.
constexpr std::string_view kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

bool read_flag(const JsonValue &section, const char *key, bool value_if_absent,
               const std::string &name) {
  const JsonValue value = section.get(key);
  if (value.is_null()) return value_if_absent;
  if (const std::optional<bool> flag = value.as_boolean()) return *flag;
  throw_error(StatusCode::kFormat, "%s: pre_tokenizer: \"%s\" is not true or false", name.c_str(),
              key);
}

[[noreturn]] void refuse(const std::string &name, const char *what, std::string_view value) {
  throw_error(StatusCode::kUnsupported, "%s: pre_tokenizer: %s \"%.60s\" is not supported",
              name.c_str(), what, std::string(value).c_str());
}

}  // namespace

PreTokenizer PreTokenizer::read(const JsonValue &section, const std::string &name) {
  PreTokenizer splitter;
  if (!section.is_null()) splitter.read_stages(section, name, 0);
  return splitter;
}

void PreTokenizer::read_stages(const JsonValue &section, const std::string &name, int depth) {
  const std::string_view type = section.get("type").as_string().value_or("");
  if (is_byte_level_) refuse(name, "after ByteLevel, type", type);
  if (stages_.size() >= kMaxStages) refuse(name, "a sequence of more than 32 stages; type", type);
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    const JsonValue parts = section.get("pretokenizers");
    for (size_t i = 0; i < parts.size(); ++i) read_stages(parts.at(i), name, depth + 1);
  } else if (type == "Split") {
    read_split(section, name);
  } else if (type == "Digits") {
    const bool is_individual = read_flag(section, "individual_digits", false, name);
    add_split(SplitRegex::compile(is_individual ? "\\p{N}" : "\\p{N}+", name), Behavior::kIsolated,
              false);
  } else if (type == "Metaspace") {
    read_metaspace(section, name);
  } else if (type == "ByteLevel") {
    read_byte_level(section, name);
  } else {
    refuse(name, "type", type);
  }
}

void PreTokenizer::read_split(const JsonValue &section, const std::string &name) {
  const JsonValue pattern = section.get("pattern");
  const std::optional<std::string_view> regex = pattern.get("Regex").as_string();
  const std::optional<std::string_view> literal = pattern.get("String").as_string();
  if (!regex && !literal) {
    throw_error(StatusCode::kFormat,
                "%s: pre_tokenizer Split has neither pattern.Regex nor "
                "pattern.String",
                name.c_str());
  }
  const std::string_view behavior = section.get("behavior").as_string().value_or("");
  Behavior chosen = Behavior::kIsolated;
  if (behavior == "Removed") {
    chosen = Behavior::kRemoved;
  } else if (behavior == "MergedWithPrevious") {
    chosen = Behavior::kMergedLeft;
  } else if (behavior == "MergedWithNext") {
    chosen = Behavior::kMergedRight;
  } else if (behavior == "Contiguous") {
    chosen = Behavior::kContiguous;
  } else if (behavior != "Isolated") {
    refuse(name, "Split behavior", behavior);
  }
  const std::string place = name + ": pre_tokenizer Split";
  add_split(
      regex ? SplitRegex::compile(*regex, place) : SplitRegex::compile_literal(*literal, place),
      chosen, read_flag(section, "invert", false, name));
}

// Older files say add_prefix_space, newer ones prepend_scheme; the newer key wins.
void PreTokenizer::read_metaspace(const JsonValue &section, const std::string &name) {
  Stage stage{Kind::kMarkSpaces};
  stage.mark = section.get("replacement").as_string().value_or("\xE2\x96\x81");
  if (stage.mark.empty()) refuse(name, "Metaspace replacement", stage.mark);
  const bool has_prefix = read_flag(section, "add_prefix_space", true, name);
  const std::string_view scheme =
      section.get("prepend_scheme").as_string().value_or(has_prefix ? "always" : "never");
  if (scheme == "always") {
    stage.prefix = Prefix::kAlways;
  } else if (scheme == "first") {
    stage.prefix = Prefix::kFirst;
  } else if (scheme != "never") {
    refuse(name, "Metaspace prepend_scheme", scheme);
  }
  const std::string mark = stage.mark;
  stages_.push_back(std::move(stage));
  if (read_flag(section, "split", true, name)) {
    add_split(SplitRegex::compile_literal(mark, name), Behavior::kMergedRight, false);
  }
}

void PreTokenizer::read_byte_level(const JsonValue &section, const std::string &name) {
  if (read_flag(section, "add_prefix_space", true, name)) stages_.push_back({Kind::kPrefixSpace});
  if (read_flag(section, "use_regex", true, name)) {
    add_split(SplitRegex::compile(kByteLevelPattern, name), Behavior::kIsolated, false);
  }
  is_byte_level_ = true;
}

void PreTokenizer::add_split(SplitRegex regex, Behavior behavior, bool is_inverted) {
  Stage stage{Kind::kSplit};
  stage.behavior = behavior;
  stage.is_inverted = is_inverted;
  stage.regex = regexes_.size();
  regexes_.push_back(std::move(regex));
  stages_.push_back(std::move(stage));
}

}  // namespace colibri

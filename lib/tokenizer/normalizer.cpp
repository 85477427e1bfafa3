// SPDX-License-Identifier: Apache-2.0
//
// Reading and applying normalisers. An empty text stays empty: Prepend does not touch it.

#include "lib/tokenizer/normalizer.h"

#include "lib/base/status.h"
#include "lib/tokenizer/section.h"
#include "lib/tokenizer/unicode.h"

namespace colibri {
namespace {

std::string_view read_text(const JsonValue &section, const char *key, const std::string &name) {
  const std::optional<std::string_view> text = section.get(key).as_string();
  if (!text) {
    throw_error(StatusCode::kFormat, "%s: normalizer: \"%s\" is missing or not a text",
                name.c_str(), key);
  }
  return *text;
}

void replace_text(std::string_view text, std::string_view from, std::string_view to,
                  std::string *result) {
  size_t done = 0;
  for (size_t hit = text.find(from); hit != std::string_view::npos; hit = text.find(from, done)) {
    result->append(text.substr(done, hit - done)).append(to);
    done = hit + from.size();
  }
  result->append(text.substr(done));
}

}  // namespace

Normalizer Normalizer::read(const JsonValue &section, const std::string &name) {
  Normalizer normalizer;
  if (!section.is_null()) normalizer.read_steps(section, name, 0);
  return normalizer;
}

void Normalizer::read_steps(const JsonValue &section, const std::string &name, int depth) {
  const std::string_view type = section.get("type").as_string().value_or("");
  if (type == "Sequence" && depth < kMaxSequenceDepth) {
    const JsonValue parts = section.get("normalizers");
    for (size_t i = 0; i < parts.size(); ++i) read_steps(parts.at(i), name, depth + 1);
  } else if (type == "NFC") {
    steps_.push_back({Kind::kNfc, {}, {}, {}});
  } else if (type == "Prepend") {
    steps_.push_back({Kind::kPrepend, {}, std::string(read_text(section, "prepend", name)), {}});
  } else if (type == "Replace") {
    const JsonValue pattern = section.get("pattern");
    const std::string to(read_text(section, "content", name));
    if (pattern.has("Regex")) {
      Step step{Kind::kReplaceRegex, {}, to, {}};
      step.regex.push_back(
          SplitRegex::compile(read_text(pattern, "Regex", name), name + ": normalizer Replace"));
      steps_.push_back(std::move(step));
      return;
    }
    const std::string from(read_text(pattern, "String", name));
    if (from.empty()) {
      throw_error(StatusCode::kUnsupported,
                  "%s: normalizer Replace of an empty text is not supported", name.c_str());
    }
    steps_.push_back({Kind::kReplaceText, from, to, {}});
  } else {
    throw_error(StatusCode::kUnsupported,
                "%s: normalizer \"%.60s\" is not supported; NFC, Prepend, Replace and Sequence are",
                name.c_str(), std::string(type).c_str());
  }
}

void Normalizer::apply(const Step &step, std::string_view text, std::string *result) {
  switch (step.kind) {
    case Kind::kNfc:
      append_nfc(text, result);
      break;
    case Kind::kPrepend:
      if (!text.empty()) result->append(step.to).append(text);
      break;
    case Kind::kReplaceText:
      replace_text(text, step.from, step.to, result);
      break;
    case Kind::kReplaceRegex: {
      RegexMatcher matcher(step.regex.front());
      for_each_part(matcher, text, [&](size_t begin, size_t end, bool is_match) {
        result->append(is_match ? std::string_view(step.to) : text.substr(begin, end - begin));
      });
      break;
    }
  }
}

void Normalizer::normalize(std::string_view text, std::string *normalized) const {
  std::string previous(text);
  for (const Step &step : steps_) {
    normalized->clear();
    normalized->reserve(previous.size() + previous.size() / 2);
    apply(step, previous, normalized);
    if (&step != &steps_.back()) previous.swap(*normalized);
  }
  if (steps_.empty()) normalized->swap(previous);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Reading decoder rules and applying them to every token once.

#include "lib/tokenizer/token_table.h"

#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/byte_alphabet.h"
#include "lib/tokenizer/section.h"

namespace colibri {
namespace {

constexpr int64_t kMaxStripped = 1000;

// Collects the parts of a decoder section and keeps their order honest.
class RulesReader {
 public:
  RulesReader(const std::string &name, DecoderRules *rules) : name_(name), rules_(*rules) {}

  void read(const JsonValue &section, int depth) {
    const std::string_view type = section.get("type").as_string().value_or("");
    if (type == "Sequence" && depth < kMaxSequenceDepth) {
      const JsonValue parts = section.get("decoders");
      for (size_t i = 0; i < parts.size(); ++i) read(parts.at(i), depth + 1);
    } else if (type == "Fuse") {
      is_fused_ = true;
    } else if (type == "Strip" && is_fused_ && rules_.n_stripped == 0) {
      read_strip(section);
    } else if (type == "Replace" && !has_bytes()) {
      read_replace(section);
    } else if (type == "ByteFallback" && !has_bytes()) {
      rules_.has_byte_fallback = true;
    } else if (type == "ByteLevel" && !has_bytes() && rules_.replacements.empty()) {
      rules_.is_byte_level = true;
    } else {
      refuse(type);
    }
  }

  [[noreturn]] void refuse(std::string_view type) const {
    throw_error(StatusCode::kUnsupported,
                "%s: decoder \"%.60s\" is not supported, or not at this place of the sequence",
                name_.c_str(), std::string(type).c_str());
  }

 private:
  // After these a token is no longer text of its own.
  bool has_bytes() const { return is_fused_ || rules_.has_byte_fallback || rules_.is_byte_level; }

  void read_strip(const JsonValue &section) {
    const std::string_view content = section.get("content").as_string().value_or("");
    const std::optional<int64_t> start = section.get("start").as_integer();
    const std::optional<int64_t> stop = section.get("stop").as_integer();
    if (content.empty() || utf8_length(content[0]) != content.size() || !start || *start < 0 ||
        *start > kMaxStripped || !stop) {
      throw_error(StatusCode::kFormat, "%s: decoder Strip needs one character, start and stop",
                  name_.c_str());
    }
    if (*stop != 0) refuse("Strip at the end of a text");
    rules_.stripped = content;
    rules_.n_stripped = static_cast<uint32_t>(*start);
  }

  void read_replace(const JsonValue &section) {
    const JsonValue pattern = section.get("pattern");
    if (pattern.has("Regex")) refuse("Replace of a Regex");
    const std::string_view from = pattern.get("String").as_string().value_or("");
    const std::optional<std::string_view> to = section.get("content").as_string();
    if (from.empty() || !to) {
      throw_error(StatusCode::kFormat, "%s: decoder Replace needs pattern.String and content",
                  name_.c_str());
    }
    rules_.replacements.push_back({std::string(from), std::string(*to)});
  }

  const std::string &name_;
  DecoderRules &rules_;
  bool is_fused_ = false;
};

std::string replace_all(std::string text, const DecoderRules::Replacement &replacement) {
  size_t i = 0;
  while ((i = text.find(replacement.from, i)) != std::string::npos) {
    text.replace(i, replacement.from.size(), replacement.to);
    i += replacement.to.size();
  }
  return text;
}

int hex_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte of "<0xE2>", -1 for another text.
int parse_byte_token(std::string_view text) noexcept {
  if (text.size() != 6 || text.substr(0, 3) != "<0x" || text[5] != '>') return -1;
  const int high = hex_value(text[3]);
  const int low = hex_value(text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace

DecoderRules DecoderRules::read(const JsonValue &section, const std::string &name) {
  DecoderRules rules;
  RulesReader reader(name, &rules);
  if (section.is_null()) reader.refuse("null");
  reader.read(section, 0);
  return rules;
}

TokenTable::TokenTable(const std::vector<TokenSpelling> &spellings, const DecoderRules &rules) {
  offsets_.reserve(spellings.size() + 1);
  flags_.reserve(spellings.size());
  bytes_.reserve(spellings.size() * 8);
  offsets_.push_back(0);
  for (const TokenSpelling &token : spellings) {
    uint8_t flags = token.is_special ? kSpecial : 0;
    if (rules.is_byte_level) {
      if (token.is_added || !append_spelled_bytes(token.text, &bytes_)) bytes_ += token.text;
    } else {
      std::string_view text = token.text;
      std::string replaced;
      for (const DecoderRules::Replacement &replacement : rules.replacements) {
        if (text.find(replacement.from) == std::string_view::npos) continue;
        replaced = replace_all(std::string(text), replacement);
        text = replaced;
      }
      const int byte = rules.has_byte_fallback ? parse_byte_token(text) : -1;
      if (byte >= 0) {
        bytes_ += static_cast<char>(byte);
        flags |= kByte;
      } else {
        bytes_ += text;
      }
    }
    flags_.push_back(flags);
    offsets_.push_back(bytes_.size());
  }
}

}  // namespace colibri

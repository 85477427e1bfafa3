// SPDX-License-Identifier: Apache-2.0
//
// Where the two syntaxes differ and what is done about it:
//   \s \S        Unicode White_Space; PCRE2 adds U+180E. Written out as ranges.
//   \v \h \w     other meanings there. \v is written as VT, the others are refused.
//   {n,m}+       not possessive in Ruby: a repeated group. Written as one.
//   \p{L} \p{S}  an older PCRE2 lacks ideographs and symbols (emoji) newer than Unicode 14; they
//                are added as ranges. Rarer newer scripts stay unknown until PCRE2 knows them.
//   \p{Name}     scripts are by Script there, by Script_Extensions in PCRE2 10.40 and later.
//   (?i:..)      full case folding there ("ss" is U+00DF), simple here. Pairs of letters that fold
//                to one character are refused, and so is everything but ASCII.
//   [a[b]&&c]    set operations there, plain characters here. Refused.

#include "lib/tokenizer/regex_syntax.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "lib/base/status.h"
#include "lib/base/utf8.h"

namespace colibri {
namespace {

constexpr size_t kNothing = SIZE_MAX;  // nothing to repeat here
constexpr size_t kMaxGroups = 64;      // nesting

constexpr std::string_view kSpaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNonSpaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";

constexpr std::array<std::string_view, 38> kCategories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Cn", "Co", "Cs", "Any"};

// Assigned in Unicode 15 to 16.
constexpr std::string_view kNewIdeographs = R"(\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr std::string_view kNewSymbols =
    R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}\x{31e5}\x{31ef}\x{1cc00}-\x{1ccef})"
    R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9})"
    R"(\x{1f8b2}-\x{1f8bb}\x{1f8c0}\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89}\x{1fa8f})"
    R"(\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6}\x{1face}\x{1facf}\x{1fada}-\x{1fadc})"
    R"(\x{1fadf}\x{1fae8}\x{1fae9}\x{1faf7}\x{1faf8}\x{1fbcb}-\x{1fbef})";

std::string_view newer_characters(std::string_view property) noexcept {
  if (property == "L" || property == "Lo") return kNewIdeographs;
  if (property == "S" || property == "So") return kNewSymbols;
  return {};
}

constexpr std::array<std::string_view, 5> kFoldingPairs = {"ss", "st", "ff", "fi", "fl"};

bool is_ascii_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_hex(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
char to_lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string &name) : pattern_(pattern), name_(name) {}

  std::string translate() {
    while (position_ < pattern_.size()) translate_item();
    if (!groups_.empty()) refuse("a group without end");
    return std::move(out_);
  }

 private:
  struct Group {
    size_t start;        // of its translation
    bool was_caseless;   // outside
    bool is_repeatable;  // not a look-around
  };

  [[noreturn]] void refuse(const char *what) const {
    throw_error(StatusCode::kUnsupported, "%s: pattern has %s at byte %zu, which is not supported",
                name_.c_str(), what, position_);
  }
  bool starts_with(std::string_view text) const {
    return pattern_.substr(position_, text.size()) == text;
  }
  char peek(size_t distance = 0) const {
    return position_ + distance < pattern_.size() ? pattern_[position_ + distance] : '\0';
  }

  void translate_item() {
    const char c = peek();
    switch (c) {
      case '\\':
        translate_escape();
        return;
      case '[':
        translate_class();
        return;
      case '(':
        open_group();
        return;
      case ')':
        close_group();
        return;
      case '*':
      case '+':
      case '?':
        translate_quantifier();
        return;
      case '{':
        translate_brace();
        return;
      case '|':
      case '^':
      case '$':
        out_ += c;
        ++position_;
        atom_ = kNothing;
        last_letter_ = '\0';
        return;
      case '.':
        begin_atom();
        out_ += c;
        ++position_;
        return;
      default:
        begin_atom();
        copy_literal();
    }
  }

  void begin_atom() {
    atom_ = out_.size();
    is_quantified_ = false;
  }

  // One character that stands for itself, in or out of a class.
  void copy_literal() {
    const size_t length = utf8_length(peek());
    const char c = peek();
    if (length > 1) {
      if (is_caseless_) refuse("a non-ASCII character in a (?i:) group");
      last_letter_ = '\0';
      out_ += pattern_.substr(position_, length);
    } else {
      check_folding(c);
      if (c > ' ' && c < 0x7F && !is_ascii_letter(c) && !is_digit(c)) out_ += '\\';
      out_ += c;
    }
    position_ += length;
  }

  void check_folding(char c) {
    const char pair[] = {last_letter_, to_lower(c)};
    if (is_caseless_ && std::find(kFoldingPairs.begin(), kFoldingPairs.end(),
                                  std::string_view(pair, 2)) != kFoldingPairs.end()) {
      refuse("two letters in a (?i:) group that also match one character");
    }
    last_letter_ = to_lower(c);
  }

  void translate_escape() {
    const char c = peek(1);
    if (c == 'A' || c == 'z' || c == 'Z') {
      out_ += '\\';
      out_ += c;
      position_ += 2;
      atom_ = kNothing;
      return;
    }
    begin_atom();
    last_letter_ = '\0';
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? "[" : "[^";
      out_ += kSpaces;
      out_ += ']';
      position_ += 2;
    } else {
      translate_common_escape();
    }
  }

  // Escapes that are the same in and out of a class.
  void translate_common_escape() {
    const char c = peek(1);
    switch (c) {
      case 'p':
      case 'P':
        translate_property();
        return;
      case 'u':
      case 'x':
        translate_code_point();
        return;
      case 'd':
        out_ += "\\p{Nd}";
        break;
      case 'D':
        out_ += "\\P{Nd}";
        break;
      case 'n':
        out_ += "\\x0a";
        break;
      case 'r':
        out_ += "\\x0d";
        break;
      case 't':
        out_ += "\\x09";
        break;
      case 'f':
        out_ += "\\x0c";
        break;
      case 'v':
        out_ += "\\x0b";
        break;
      case 'a':
        out_ += "\\x07";
        break;
      case 'e':
        out_ += "\\x1b";
        break;
      default:
        if (c <= ' ' || is_ascii_letter(c) || is_digit(c)) {
          if (c != ' ') refuse("an escape of unknown or different meaning");
        }
        ++position_;
        copy_literal();
        return;
    }
    position_ += 2;
  }

  void translate_property() {
    if (is_caseless_) refuse("a property in a (?i:) group");
    const size_t end = pattern_.find('}', position_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("a property without braces");
    std::string_view property = pattern_.substr(position_ + 3, end - position_ - 3);
    bool is_negated = peek(1) == 'P';
    if (!property.empty() && property[0] == '^') {
      is_negated = !is_negated;
      property.remove_prefix(1);
    }
    const bool is_plain = std::all_of(property.begin(), property.end(),
                                      [](char c) { return is_ascii_letter(c) || c == '_'; });
    if (property.empty() || !is_plain) refuse("an unknown property");
    position_ = end + 1;
    const std::string_view newer = newer_characters(property);
    if (!newer.empty() && !is_in_class_) {
      out_ += is_negated ? "[^\\p{" : "[\\p{";
      out_.append(property).append("}").append(newer).append("]");
      return;
    }
    out_ += is_negated ? "\\P{" : "\\p{";
    if (std::find(kCategories.begin(), kCategories.end(), property) == kCategories.end()) {
      out_ += "sc:";
    }
    out_ += property;
    out_ += '}';
    if (!is_negated) out_ += newer;
  }

  void translate_code_point() {
    size_t digits = position_ + 2;
    size_t n_digits = peek(1) == 'u' ? 4 : 2;
    size_t end = digits + n_digits;
    if (peek(1) == 'x' && peek(2) == '{') {
      ++digits;
      end = std::min(pattern_.find('}', digits), pattern_.size());
      n_digits = end - digits;
    }
    const std::string_view text = pattern_.substr(digits, n_digits);
    if (text.empty() || text.size() != n_digits || text.size() > 6 ||
        !std::all_of(text.begin(), text.end(), is_hex)) {
      refuse("a malformed code point");
    }
    const unsigned long value = std::stoul(std::string(text), nullptr, 16);
    const bool is_byte = peek(1) == 'x' && peek(2) != '{' && value >= 0x80;
    if (is_byte || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      refuse("a raw byte or a number that is no character");
    }
    if (is_caseless_) refuse("a code point in a (?i:) group");
    char spelled[16];
    std::snprintf(spelled, sizeof(spelled), "\\x{%lx}", value);
    out_ += spelled;
    position_ = peek(1) == 'x' && peek(2) == '{' ? end + 1 : end;
  }

  void translate_class() {
    begin_atom();
    out_ += '[';
    ++position_;
    if (peek() == '^') {
      out_ += '^';
      ++position_;
    }
    if (peek() == ']') refuse("an empty class");
    is_in_class_ = true;
    bool is_first = true;
    bool can_begin_range = false;  // the member before is one character
    while (peek() != ']') {
      if (position_ >= pattern_.size()) refuse("a class without end");
      if (peek() == '[' || starts_with("&&")) refuse("a set operation in a class");
      last_letter_ = '\0';
      const bool is_hyphen = peek() == '-' && peek(1) != ']' && !is_first;
      if (is_hyphen) {
        if (!can_begin_range || !is_range_end()) refuse("a hyphen that is not between characters");
        out_ += '-';
        ++position_;
      }
      const bool is_set = translate_class_member();
      can_begin_range = !is_set && !is_hyphen;
      is_first = false;
    }
    out_ += ']';
    ++position_;
    is_in_class_ = false;
    last_letter_ = '\0';
  }

  // Whether one character, not a set, follows the hyphen.
  bool is_range_end() const {
    if (peek(1) != '\\') return peek(1) != '[';
    return std::string_view("pPsSdD").find(peek(2)) == std::string_view::npos;
  }

  // True if the member was a set of characters.
  bool translate_class_member() {
    if (peek() != '\\') {
      copy_literal();
      return false;
    }
    const char c = peek(1);
    if (c == 's' || c == 'S') {
      out_ += c == 's' ? kSpaces : kNonSpaces;
      position_ += 2;
      return true;
    }
    translate_common_escape();
    return c == 'p' || c == 'P' || c == 'd' || c == 'D';
  }

  void open_group() {
    if (groups_.size() >= kMaxGroups) refuse("groups nested too deep");
    groups_.push_back({out_.size(), is_caseless_, true});
    last_letter_ = '\0';
    atom_ = kNothing;
    static constexpr std::array<std::string_view, 4> kLookArounds = {"(?=", "(?!", "(?<=", "(?<!"};
    for (const std::string_view look : kLookArounds) {
      if (!starts_with(look)) continue;
      groups_.back().is_repeatable = false;
      out_ += look;
      position_ += look.size();
      return;
    }
    if (starts_with("(?i:")) {
      is_caseless_ = true;
      out_ += "(?i:";
      position_ += 4;
    } else if (starts_with("(?:") || starts_with("(?>")) {
      out_ += pattern_.substr(position_, 3);
      position_ += 3;
    } else if (starts_with("(?")) {
      refuse("a group of unknown kind");
    } else {
      out_ += "(?:";
      position_ += 1;
    }
  }

  void close_group() {
    if (groups_.empty()) refuse("a closing parenthesis without a group");
    const Group group = groups_.back();
    groups_.pop_back();
    is_caseless_ = group.was_caseless;
    out_ += ')';
    ++position_;
    atom_ = group.is_repeatable ? group.start : kNothing;
    is_quantified_ = false;
    last_letter_ = '\0';
  }

  // * + ? and their lazy and possessive forms.
  void translate_quantifier() {
    if (atom_ == kNothing || is_quantified_) refuse("a quantifier with nothing to repeat");
    out_ += peek();
    ++position_;
    if (peek() == '?' || peek() == '+') {
      out_ += peek();
      ++position_;
    }
    is_quantified_ = true;
    last_letter_ = '\0';
  }

  // {n} {n,} {n,m}; any other brace is a character.
  void translate_brace() {
    size_t end = position_ + 1;
    while (end < pattern_.size() && (is_digit(pattern_[end]) || pattern_[end] == ',')) ++end;
    const std::string_view body = pattern_.substr(position_ + 1, end - position_ - 1);
    if (body.empty() || end >= pattern_.size() || pattern_[end] != '}') {
      begin_atom();
      copy_literal();
      return;
    }
    if (body[0] == ',' || std::count(body.begin(), body.end(), ',') > 1 || body.size() > 11) {
      refuse("an interval that is not {n}, {n,} or {n,m}");
    }
    if (atom_ == kNothing || is_quantified_) refuse("a quantifier with nothing to repeat");
    out_ += pattern_.substr(position_, end + 1 - position_);
    position_ = end + 1;
    last_letter_ = '\0';
    is_quantified_ = true;
    if (peek() == '?') {
      if (body.find(',') == std::string_view::npos) refuse("{n}?");
      out_ += '?';
      ++position_;
    } else if (peek() == '+' || peek() == '*' || peek() == '{') {  // repeats the whole
      out_.insert(atom_, "(?:");
      out_ += ')';
      is_quantified_ = false;
    }
  }

  std::string_view pattern_;
  const std::string &name_;
  std::string out_;
  size_t position_ = 0;
  size_t atom_ = kNothing;      // where the translation of the last repeatable item begins
  bool is_quantified_ = false;  // the last item already has a quantifier
  bool is_caseless_ = false;
  bool is_in_class_ = false;
  char last_letter_ = '\0';  // literal just before, lower case, '\0' if none
  std::vector<Group> groups_;
};

}  // namespace

std::string translate_regex(std::string_view pattern, const std::string &name) {
  return Translator(pattern, name).translate();
}

}  // namespace colibri

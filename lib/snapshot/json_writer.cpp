// SPDX-License-Identifier: Apache-2.0
//
// JsonWriter: compact JSON text. Whatever the host's locale and whatever bytes a name holds, the
// output is valid JSON in valid UTF-8.

#include <charconv>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/snapshot/json.h"

namespace colibri {
namespace {

void append_control(std::string *out, char letter) {
  constexpr char kDigits[] = "0123456789abcdef";
  switch (letter) {
    case '\n':
      *out += "\\n";
      break;
    case '\t':
      *out += "\\t";
      break;
    case '\r':
      *out += "\\r";
      break;
    default:
      *out += "\\u00";
      *out += kDigits[static_cast<uint8_t>(letter) >> 4];
      *out += kDigits[static_cast<uint8_t>(letter) & 15];
  }
}

void append_quoted(std::string *out, std::string_view text) {
  *out += '"';
  while (!text.empty()) {
    const Utf8Step step = step_utf8(text);
    const bool is_character = step.kind == Utf8Step::Kind::kCharacter;
    const char letter = text.front();
    if (!is_character) {
      *out += kReplacementText;
    } else if (letter == '"' || letter == '\\') {
      *out += '\\';
      *out += letter;
    } else if (static_cast<uint8_t>(letter) < 0x20) {
      append_control(out, letter);
    } else {
      *out += text.substr(0, step.length);
    }
    text.remove_prefix(is_character ? step.length : 1);
  }
  *out += '"';
}

template <typename Number>
void append_number(std::string *out, Number number) {
  char digits[40];
  const auto result = std::to_chars(digits, digits + sizeof digits, number);
  out->append(digits, result.ptr);
}

}  // namespace

void JsonWriter::separate() {
  if (needs_comma_) text_ += ',';
  needs_comma_ = true;
}

JsonWriter &JsonWriter::begin_object() {
  separate();
  text_ += '{';
  needs_comma_ = false;
  return *this;
}

JsonWriter &JsonWriter::end_object() {
  text_ += '}';
  needs_comma_ = true;
  return *this;
}

JsonWriter &JsonWriter::begin_array() {
  separate();
  text_ += '[';
  needs_comma_ = false;
  return *this;
}

JsonWriter &JsonWriter::end_array() {
  text_ += ']';
  needs_comma_ = true;
  return *this;
}

JsonWriter &JsonWriter::key(std::string_view name) {
  separate();
  append_quoted(&text_, name);
  text_ += ':';
  needs_comma_ = false;
  return *this;
}

JsonWriter &JsonWriter::value(std::string_view text) {
  separate();
  append_quoted(&text_, text);
  return *this;
}

JsonWriter &JsonWriter::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
  return *this;
}

JsonWriter &JsonWriter::value(int64_t number) {
  separate();
  append_number(&text_, number);
  return *this;
}

JsonWriter &JsonWriter::value(uint64_t number) {
  separate();
  append_number(&text_, number);
  return *this;
}

JsonWriter &JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  append_number(&text_, number);
  return *this;
}

JsonWriter &JsonWriter::null() {
  separate();
  text_ += "null";
  return *this;
}

JsonWriter &JsonWriter::value(const JsonValue &parsed) {
  switch (parsed.kind()) {
    case JsonValue::Kind::kNull:
      return null();
    case JsonValue::Kind::kBoolean:
      return value(*parsed.as_boolean());
    case JsonValue::Kind::kInteger:
      return value(*parsed.as_integer());
    case JsonValue::Kind::kUnsigned:
      return value(*parsed.as_unsigned());
    case JsonValue::Kind::kFloat:
      return value(*parsed.as_number());
    case JsonValue::Kind::kString:
      return value(*parsed.as_string());
    case JsonValue::Kind::kArray:
      begin_array();
      for (size_t i = 0; i < parsed.size(); ++i) value(parsed.at(i));
      return end_array();
    case JsonValue::Kind::kObject:
      begin_object();
      for (size_t i = 0; i < parsed.size(); ++i) key(parsed.key_at(i)).value(parsed.at(i));
      return end_object();
  }
  return *this;
}

}  // namespace colibri

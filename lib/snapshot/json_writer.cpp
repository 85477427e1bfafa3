// SPDX-License-Identifier: Apache-2.0
//
// JsonWriter: compact JSON text. Whatever the host's locale and whatever bytes a name holds, the
// output is valid JSON in valid UTF-8.

#include <charconv>
#include <cmath>

#include "lib/snapshot/json.h"

namespace colibri {
namespace {

// Bytes of the well-formed UTF-8 character at the start of `text`, or 0. `text` is not empty.
size_t measure_character(std::string_view text) noexcept {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto continues = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool too_large = lead == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

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
    const size_t bytes = measure_character(text);
    const char letter = text.front();
    if (bytes == 0) {
      *out += "\xEF\xBF\xBD";  // U+FFFD
    } else if (letter == '"' || letter == '\\') {
      *out += '\\';
      *out += letter;
    } else if (static_cast<uint8_t>(letter) < 0x20) {
      append_control(out, letter);
    } else {
      *out += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
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

// SPDX-License-Identifier: Apache-2.0
//
// JSON text. Numbers are printed so that they read back as the same double.

#include "examples/colibri/json_output.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace colibri::command {

void JsonOutput::separate() {
  if (needs_comma_) text_ += ", ";
  needs_comma_ = true;
}

JsonOutput &JsonOutput::open(char bracket) {
  separate();
  text_ += bracket;
  needs_comma_ = false;
  return *this;
}

JsonOutput &JsonOutput::close(char bracket) {
  text_ += bracket;
  needs_comma_ = true;
  return *this;
}

void JsonOutput::append_quoted(std::string_view text) {
  text_ += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      text_ += escape;
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

JsonOutput &JsonOutput::key(std::string_view name) {
  separate();
  append_quoted(name);
  text_ += ": ";
  needs_comma_ = false;
  return *this;
}

JsonOutput &JsonOutput::value(std::string_view text) {
  separate();
  append_quoted(text);
  return *this;
}

JsonOutput &JsonOutput::value(uint64_t number) {
  separate();
  text_ += std::to_string(number);
  return *this;
}

JsonOutput &JsonOutput::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  text_.append(digits, end);
  return *this;
}

JsonOutput &JsonOutput::value(bool truth) {
  separate();
  text_ += truth ? "true" : "false";
  return *this;
}

JsonOutput &JsonOutput::value(std::span<const int32_t> ids) {
  begin_array();
  for (const int32_t id : ids) {
    separate();
    text_ += std::to_string(id);
  }
  return end_array();
}

JsonOutput &JsonOutput::null() {
  separate();
  text_ += "null";
  return *this;
}

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON on one line. The caller keeps begin and end in order; commas and escapes are done
// here.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace colibri::command {

class JsonOutput {
 public:
  JsonOutput &begin_object() { return open('{'); }
  JsonOutput &end_object() { return close('}'); }
  JsonOutput &begin_array() { return open('['); }
  JsonOutput &end_array() { return close(']'); }

  // Next comes the member's value.
  JsonOutput &key(std::string_view name);

  JsonOutput &value(std::string_view text);  // UTF-8
  JsonOutput &value(const char *text) { return value(std::string_view(text)); }
  JsonOutput &value(uint64_t number);
  JsonOutput &value(double number);  // null if not finite
  JsonOutput &value(bool truth);
  JsonOutput &value(std::span<const int32_t> ids);
  JsonOutput &null();

  template <class Value>
  JsonOutput &member(std::string_view name, const Value &content) {
    return key(name).value(content);
  }

  const std::string &text() const noexcept { return text_; }

 private:
  JsonOutput &open(char bracket);
  JsonOutput &close(char bracket);
  void separate();
  void append_quoted(std::string_view text);

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0
//
// One pass over the text; nothing is stored. Escapes inside strings are shown as they stand, except
// quotes and backslashes.

#include "examples/colibri/json_table.h"

#include <charconv>

#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

constexpr size_t kNameWidth = 28;

class TableWriter {
 public:
  explicit TableWriter(std::string_view json) : json_(json) {}

  std::string write() {
    value("", 0);
    return std::move(out_);
  }

 private:
  char peek() {
    while (at_ < json_.size() && (json_[at_] == ' ' || json_[at_] == '\n' || json_[at_] == '\t'))
      ++at_;
    return at_ < json_.size() ? json_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  std::string scalar() {
    std::string text;
    if (take('"')) {
      while (at_ < json_.size() && json_[at_] != '"') {
        const bool is_plain_escape = json_[at_] == '\\' && at_ + 1 < json_.size() &&
                                     (json_[at_ + 1] == '"' || json_[at_ + 1] == '\\');
        if (is_plain_escape) ++at_;
        text += json_[at_++];
      }
      ++at_;
      return text;
    }
    while (at_ < json_.size() &&
           std::string_view(",]} \n\t").find(json_[at_]) == std::string_view::npos) {
      text += json_[at_++];
    }
    return text;
  }

  void line(std::string_view name, std::string_view content, size_t depth) {
    std::string begin(2 * depth, ' ');
    begin += name;
    begin.resize(std::max(begin.size() + 1, kNameWidth), ' ');
    out_ += content.empty() ? std::string(2 * depth, ' ') + std::string(name)
                            : begin + std::string(content);
    out_ += '\n';
  }

  static std::string with_size(std::string_view name, std::string text) {
    uint64_t bytes = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), bytes);
    const bool is_size = name.ends_with("bytes") && parsed.ec == std::errc() && bytes >= 1024;
    return is_size ? text + "  (" + format_bytes(bytes) + ")" : text;
  }

  void value(std::string_view name, size_t depth) {
    if (peek() == '{') {
      object(name, depth);
    } else if (peek() == '[') {
      array(name, depth);
    } else {
      line(name, with_size(name, scalar()), depth);
    }
  }

  void object(std::string_view name, size_t depth) {
    take('{');
    if (!name.empty()) line(name, "", depth);
    while (peek() != '}' && peek() != '\0') {
      const std::string member = scalar();
      take(':');
      value(member, name.empty() ? depth : depth + 1);
      take(',');
    }
    take('}');
  }

  void array(std::string_view name, size_t depth) {
    take('[');
    std::string row;
    size_t n = 0;
    while (peek() != ']' && peek() != '\0') {
      if (peek() == '{' || peek() == '[') {
        value(std::string(name) + " " + std::to_string(n), depth);
      } else {
        row += (row.empty() ? "" : ", ") + scalar();
      }
      ++n;
      take(',');
    }
    take(']');
    if (!row.empty() || n == 0) line(name, n == 0 ? "none" : row, depth);
  }

  std::string_view json_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string format_json_table(std::string_view json) {
  return TableWriter(json).write();
}

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0

#include "examples/colibri/json_members.h"

#include <algorithm>

namespace colibri::command {
namespace {

constexpr std::string_view kSpace = " \t\n\r";

size_t skip_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(kSpace, at), text.size());
}

// Behind the closing quote of the string that begins at `at`.
size_t skip_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Behind the value that begins at `at`.
size_t skip_value(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    at = c == '"' ? skip_string(text, at) : at + 1;
  }
  return at;
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> json_members(std::string_view object) {
  std::vector<std::pair<std::string_view, std::string_view>> members;
  size_t at = skip_space(object, 0);
  if (at == object.size() || object[at] != '{') return members;
  for (at = skip_space(object, at + 1); at < object.size() && object[at] == '"';
       at = skip_space(object, at)) {
    const size_t name_end = skip_string(object, at);
    const std::string_view name = object.substr(at + 1, name_end - at - 2);
    const size_t begin = skip_space(object, skip_space(object, name_end) + 1);
    const size_t end = skip_value(object, begin);
    members.emplace_back(name, object.substr(begin, end - begin));
    at = skip_space(object, end);
    if (at < object.size() && object[at] == ',') ++at;
  }
  return members;
}

std::string_view json_member(std::string_view object, std::string_view name) {
  for (const auto &[key, text] : json_members(object)) {
    if (key == name) return text;
  }
  return {};
}

}  // namespace colibri::command

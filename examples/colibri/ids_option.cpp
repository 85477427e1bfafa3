// SPDX-License-Identifier: Apache-2.0
//
// The list is parsed here and not by CLI11, whose lists would also take the arguments behind them.

#include "examples/colibri/ids_option.h"

#include <charconv>

namespace colibri::command {
namespace {

std::vector<int32_t> parse_ids(const std::string &list) {
  std::vector<int32_t> ids;
  const char *at = list.data();
  const char *const end = at + list.size();
  while (true) {
    while (at != end && *at == ' ') ++at;
    int32_t id = 0;
    const auto [rest, error] = std::from_chars(at, end, id);
    at = rest;
    while (at != end && *at == ' ') ++at;
    if (error != std::errc() || id < 0 || (at != end && *at != ',')) {
      throw CLI::ValidationError("--ids", "must be token ids such as 1,2,3; item " +
                                              std::to_string(ids.size()) + " is not one");
    }
    ids.push_back(id);
    if (at == end) return ids;
    ++at;
  }
}

}  // namespace

CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description) {
  return app
      .add_option_function<std::string>(
          "--ids", [ids](const std::string &list) { *ids = parse_ids(list); }, description)
      ->type_name("N,N,..");
}

std::string join_ids(std::span<const int32_t> ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (!text.empty()) text += ',';
    text += std::to_string(id);
  }
  return text;
}

}  // namespace colibri::command

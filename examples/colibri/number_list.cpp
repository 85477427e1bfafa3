// SPDX-License-Identifier: Apache-2.0
//
// The list is parsed here and not by CLI11, whose lists would also take the arguments behind them.

#include "examples/colibri/number_list.h"

#include <charconv>

namespace colibri::command {
namespace {

std::vector<int32_t> parse_numbers(const std::string &option, int32_t least,
                                   const std::string &list) {
  std::vector<int32_t> numbers;
  const char *at = list.data();
  const char *const end = at + list.size();
  while (true) {
    while (at != end && *at == ' ') ++at;
    int32_t number = 0;
    const auto [rest, error] = std::from_chars(at, end, number);
    at = rest;
    while (at != end && *at == ' ') ++at;
    if (error != std::errc() || number < least || (at != end && *at != ',')) {
      throw CLI::ValidationError(option, "must be numbers from " + std::to_string(least) +
                                             " on, such as 1,2,3; item " +
                                             std::to_string(numbers.size() + 1) + " is not one");
    }
    numbers.push_back(number);
    if (at == end) return numbers;
    ++at;
  }
}

}  // namespace

CLI::Option *add_number_list(CLI::App &app, const std::string &option, int32_t least,
                             std::vector<int32_t> *numbers, const std::string &description) {
  const auto take = [option, least, numbers](const std::string &list) {
    *numbers = parse_numbers(option, least, list);
  };
  return app.add_option_function<std::string>(option, take, description)->type_name("N,N,..");
}

CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description) {
  return add_number_list(app, "--ids", 0, ids, description);
}

std::string join_numbers(std::span<const int32_t> numbers) {
  std::string text;
  for (const int32_t number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

}  // namespace colibri::command

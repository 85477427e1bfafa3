// SPDX-License-Identifier: Apache-2.0
//
// Lists of numbers on the command line, such as token ids: "1,2,3".

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colibri::command {

// Adds an option that takes a list of numbers from `least` on, at least one. Anything else is bad
// use.
CLI::Option *add_number_list(CLI::App &app, const std::string &option, int32_t least,
                             std::vector<int32_t> *numbers, const std::string &description);

// Adds --ids.
CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description);

// "1,2,3", the form that these options take.
std::string join_numbers(std::span<const int32_t> numbers);

}  // namespace colibri::command

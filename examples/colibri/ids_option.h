// SPDX-License-Identifier: Apache-2.0
//
// Token ids on the command line: "1,2,3".

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace colibri::command {

// Adds --ids; a malformed list is bad use. At least one id is asked for if the option is given.
CLI::Option *add_ids_option(CLI::App &app, std::vector<int32_t> *ids,
                            const std::string &description);

// "1,2,3", the form that --ids takes.
std::string join_ids(std::span<const int32_t> ids);

}  // namespace colibri::command

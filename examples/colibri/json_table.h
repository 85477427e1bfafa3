// SPDX-License-Identifier: Apache-2.0
//
// Shows JSON of the library to people: one line per value, indented by depth.

#pragma once

#include <string>
#include <string_view>

namespace colibri::command {

// `json` is trusted: it comes from the library. Members whose name ends in "bytes" get a readable
// size.
std::string format_json_table(std::string_view json);

}  // namespace colibri::command

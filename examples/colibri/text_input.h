// SPDX-License-Identifier: Apache-2.0
//
// Texts that come from files or from standard input.

#pragma once

#include <string>

namespace colibri::command {

// Whole content; "-" is standard input. Throws std::runtime_error, or
// Interrupted after Ctrl-C.
std::string read_text_file(const std::string &path);

}  // namespace colibri::command

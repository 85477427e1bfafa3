// SPDX-License-Identifier: Apache-2.0
//
// Where the demonstration model is that comes with the command.

#pragma once

#include <string>

namespace colibri::command {

// Folder of the model beside the running program: ../share/colibri/models/colibri-tiny-packed, in a
// build folder and where it is installed. Throws std::runtime_error that says what to do if it is
// not there.
std::string find_embedded_model();

}  // namespace colibri::command

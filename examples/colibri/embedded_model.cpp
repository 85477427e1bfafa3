// SPDX-License-Identifier: Apache-2.0
//
// The place is found from /proc/self/exe, so neither the working directory nor PATH matters.

#include "examples/colibri/embedded_model.h"

#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace colibri::command {

std::string find_embedded_model() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder =
      (program.parent_path().parent_path() / "share/colibri/models/colibri-tiny-int4")
          .lexically_normal();
  if (!error && fs::is_regular_file(folder / "config.json", error)) return folder.string();
  throw std::runtime_error("the model that comes with the command is not in " + folder.string() +
                           "; name one with --model FOLDER");
}

}  // namespace colibri::command

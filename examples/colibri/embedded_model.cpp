// SPDX-License-Identifier: Apache-2.0
//
// The program's own path comes from the kernel with its start, so that neither PATH nor /proc
// matters. Links are resolved: a link in /usr/local/bin finds the model beside its target.

#include "examples/colibri/embedded_model.h"

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include <sys/auxv.h>

namespace colibri::command {

std::string find_embedded_model() {
  namespace fs = std::filesystem;
  std::error_code error;
  // The kernel put the text on the stack of the process; it stays there.
  const auto *name = reinterpret_cast<const char *>(getauxval(AT_EXECFN));
  const fs::path program = fs::canonical(name == nullptr ? "" : name, error);
  const fs::path folder =
      (program.parent_path().parent_path() / "share/colibri/models/colibri-tiny-packed")
          .lexically_normal();
  if (!error && fs::is_regular_file(folder / "config.json", error)) return folder.string();
  throw std::runtime_error("the model that comes with the command is not in " + folder.string() +
                           "; name one with --model FOLDER");
}

}  // namespace colibri::command

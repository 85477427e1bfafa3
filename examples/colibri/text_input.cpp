// SPDX-License-Identifier: Apache-2.0
//
// Reads by blocks, so that pipes work as files do.

#include "examples/colibri/text_input.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;  // what the library takes at once

std::string read_all(std::FILE *file, const std::string &name) {
  std::string text;
  char block[65536];
  for (size_t n = std::fread(block, 1, sizeof block, file); n > 0;
       n = std::fread(block, 1, sizeof block, file)) {
    text.append(block, n);
    if (is_interrupted()) throw Interrupted();
    if (text.size() > kMaxTextBytes) {
      throw std::runtime_error(name + " has more than 2^30 bytes; give a shorter text");
    }
  }
  if (is_interrupted()) throw Interrupted();
  if (std::ferror(file) != 0) {
    throw std::runtime_error(name + " cannot be read: " + std::strerror(errno));
  }
  return text;
}

}  // namespace

std::string read_text_file(const std::string &path) {
  if (path == "-") return read_all(stdin, "standard input");
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"),
                                                              std::fclose);
  if (is_interrupted()) throw Interrupted();
  if (!file) throw std::runtime_error(path + " cannot be opened: " + std::strerror(errno));
  return read_all(file.get(), path);
}

}  // namespace colibri::command

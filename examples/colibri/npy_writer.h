// SPDX-License-Identifier: Apache-2.0
//
// Writes a two-dimensional float32 array in NumPy's .npy form, row by row.

#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

namespace colibri::command {

class NpyWriter {
 public:
  // Creates or replaces the file and writes the header. Throws std::runtime_error.
  NpyWriter(const std::string &path, uint64_t n_rows, uint64_t n_columns);

  // n_columns values. Throws std::runtime_error.
  void write_row(std::span<const float> row);
  // Must come after the last row; without it the file may be incomplete. Throws std::runtime_error.
  void finish();

 private:
  struct FileCloser {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
  };
  [[noreturn]] void fail(const char *what) const;

  std::string path_;
  std::unique_ptr<std::FILE, FileCloser> file_;
};

}  // namespace colibri::command

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
  // Begins the file beside its final place; what stands at `path` stays until finish(). A path that
  // is no regular file (a pipe, a device) is written directly. Throws std::runtime_error.
  NpyWriter(const std::string &path, uint64_t n_rows, uint64_t n_columns);

  // n_columns values. Throws std::runtime_error.
  void write_row(std::span<const float> row);
  // After the last row: puts the file in its place. Throws std::runtime_error.
  void finish();
  // Without finish() nothing remains of the file.
  ~NpyWriter();
  NpyWriter(const NpyWriter &) = delete;
  NpyWriter &operator=(const NpyWriter &) = delete;

 private:
  struct FileCloser {
    void operator()(std::FILE *file) const noexcept { std::fclose(file); }
  };
  [[noreturn]] void fail(const char *what) const;

  std::string path_;
  std::string written_path_;  // where the rows go until finish()
  std::unique_ptr<std::FILE, FileCloser> file_;
};

}  // namespace colibri::command

// SPDX-License-Identifier: Apache-2.0
//
// The .npy form, version 1.0: magic, length of a Python literal that describes the array, the
// values. The header is padded so that the values begin at a multiple of 64 bytes. Values are
// written as they lie in memory: little-endian.

#include "examples/colibri/npy_writer.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace colibri::command {

static_assert(std::endian::native == std::endian::little, "values are written without swapping");

NpyWriter::NpyWriter(const std::string &path, uint64_t n_rows, uint64_t n_columns)
    : path_(path), written_path_(path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  const bool is_special =
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  if (!is_special) written_path_ += ".part";
  file_.reset(std::fopen(written_path_.c_str(), "wb"));
  if (!file_) fail("cannot be created");
  std::string description = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                            std::to_string(n_rows) + ", " + std::to_string(n_columns) + "), }";
  constexpr size_t kPrefixBytes = 10;
  while ((kPrefixBytes + description.size() + 1) % 64 != 0) description += ' ';
  description += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(description.size() & 0xff);
  header += static_cast<char>(description.size() >> 8);
  header += description;
  if (std::fwrite(header.data(), 1, header.size(), file_.get()) != header.size())
    fail("cannot be written");
}

void NpyWriter::write_row(std::span<const float> row) {
  if (std::fwrite(row.data(), sizeof(float), row.size(), file_.get()) != row.size())
    fail("cannot be written");
}

void NpyWriter::finish() {
  if (std::fclose(file_.release()) != 0) fail("cannot be written");
  if (written_path_ == path_) return;
  if (std::rename(written_path_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  written_path_ = path_;
}

NpyWriter::~NpyWriter() {
  if (written_path_ != path_) std::remove(written_path_.c_str());
}

void NpyWriter::fail(const char *what) const {
  throw std::runtime_error(path_ + " " + what + ": " + std::strerror(errno) +
                           "; choose another place with --out");
}

}  // namespace colibri::command

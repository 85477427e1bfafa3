// SPDX-License-Identifier: Apache-2.0
//
// The one door to files: positional reads and directory listing. As everywhere in lib/base, the OS
// calls stand in the *_posix.cpp file. Paths are UTF-8 bytes, relative to the working directory
// only if the caller wrote them so.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace colibri {

// Positional source of bytes: a file, memory, or what a host supplies. All methods may be called
// from several threads at once.
class Reader {
 public:
  virtual ~Reader() = default;
  virtual uint64_t size() const noexcept = 0;
  // Fills destination[0..bytes) from `offset`. Short reads are continued. A failure (kIo) names the
  // reader, offset, wanted and got bytes and errno; the destination is then undefined.
  virtual Status read_at(uint64_t offset, void *destination, size_t bytes) const noexcept = 0;
  // For messages: the file's path.
  virtual const std::string &name() const noexcept = 0;
};

// Opens a regular file for reading (close-on-exec). Throws Error: kNotFound, kIo.
std::unique_ptr<Reader> open_file(const std::string &path);
// A Reader over a copy of bytes, for tests and small embedded data.
std::unique_ptr<Reader> make_memory_reader(std::string name, std::vector<uint8_t> bytes);

// Whole file as bytes. Throws Error: kNotFound, kIo, or kFormat if it is larger than max_bytes.
std::vector<uint8_t> read_whole_file(const std::string &path, uint64_t max_bytes);

// True unless the folder has no entry of this name: also for a dangling link, a folder, or a name
// that cannot be examined. An optional file that is_named() must open, or it is a defect.
bool is_named(const std::string &path) noexcept;
bool file_exists(const std::string &path) noexcept;  // regular file, links followed
bool directory_exists(const std::string &path) noexcept;
// Names (not paths) of the regular files in a folder, links followed, sorted bytewise. Throws
// Error.
std::vector<std::string> list_files(const std::string &directory);
std::string join_path(const std::string &directory, const std::string &name);
std::string parent_directory(const std::string &path);  // "." if there is none
std::string file_name(const std::string &path);

}  // namespace colibri

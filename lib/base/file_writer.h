// SPDX-License-Identifier: Apache-2.0
//
// Writing of files and folders: positional writes, syncing, the steps of an atomic publication. As
// with file.h, the OS calls stand in file_writer_posix.cpp. Everything throws Error(kIo) with the
// path, the numbers and the system's reason; a full disk says so and how many bytes were wanted.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/descriptor.h"
#include "lib/base/status.h"

namespace colibri {

// A regular file open for writing. Writes of different ranges may run in several threads at once.
class FileWriter {
 public:
  // Opens `path` (close-on-exec), made if it is absent, never cut; an existing link is refused.
  static std::unique_ptr<FileWriter> open(const std::string &path);

  void write_at(uint64_t offset, std::span<const uint8_t> bytes);
  // Begins to bring a range to the disk and does not wait, so that sync() finds less to do. A hint;
  // cannot fail.
  void begin_sync(uint64_t offset, uint64_t bytes) noexcept;
  // What was written survives a loss of power once this returns.
  void sync();
  uint64_t disk_bytes() const;  // that it takes on the disk: holes take none
  void resize(uint64_t bytes);  // cuts, or extends with a hole of zeros
  // After sync(): what is read next comes from the disk and not from memory, where the system
  // allows. A hint; cannot fail.
  void forget_cached() noexcept;
  const std::string &path() const noexcept { return path_; }

 private:
  FileWriter(std::string path, Descriptor descriptor) noexcept;
  std::string path_;
  Descriptor descriptor_;
};

// Makes one folder; its parent must exist. An existing folder is fine.
void make_directory(const std::string &path);
// The names in a folder survive a loss of power once this returns.
void sync_directory(const std::string &path);
// Renames; kArgument if `to` exists (also as an empty folder). On the same file system only.
void rename_new(const std::string &from, const std::string &to);
void remove_file(const std::string &path);  // absent: fine
// Bytes that an ordinary user may still write on the file system that holds `path`.
uint64_t free_disk_bytes(const std::string &path);

// An advisory lock on a file of its own (made if absent), so that two processes never write one
// folder. Ends with the object or the process, kill -9 included.
class FileLock {
 public:
  // Throws Error(kBusy) if another process or object holds it.
  explicit FileLock(const std::string &path);
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

 private:
  Descriptor descriptor_;
};

}  // namespace colibri

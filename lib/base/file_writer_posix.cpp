// SPDX-License-Identifier: Apache-2.0
//
// Writing through POSIX calls. What the kernel has taken is not on the disk before sync() returns,
// and a name is not before sync_directory() of its folder does.

#include "lib/base/file_writer.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <utility>

#include "lib/base/file.h"

namespace colibri {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 30;  // Linux cuts longer writes anyway
constexpr uint64_t kStatBlockBytes = 512;        // unit of st_blocks, whatever the file system

[[noreturn]] void throw_system_error(const std::string &path, const char *what, int error) {
  throw_error(StatusCode::kIo, "'%s' cannot be %s: %s (errno %d)", path.c_str(), what,
              ErrorText(error).text, error);
}

// What to do about a write that failed, where that is known.
const char *write_advice(int error) noexcept {
  if (error == ENOSPC || error == EDQUOT) return "; the disk is full: make room and try again";
  if (error == EFBIG) return "; the file system or a limit of this process forbids larger files";
  return "";
}

bool is_full(int error) noexcept {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

[[noreturn]] void throw_write_error(const std::string &path, uint64_t offset, size_t wanted,
                                    size_t done, int error) {
  throw_error(StatusCode::kIo,
              "'%s': write at offset %" PRIu64 " wanted %zu bytes and wrote %zu: %s (errno %d)%s",
              path.c_str(), offset, wanted, done, ErrorText(error).text, error,
              write_advice(error));
}

struct stat read_facts(int number, const std::string &path) {
  struct stat facts;
  if (fstat(number, &facts) != 0) throw_system_error(path, "examined", errno);
  return facts;
}

// errno, or 0.
int sync_descriptor(int number, bool is_directory) noexcept {
  int result = 0;
  do {
    result = is_directory ? fsync(number) : fdatasync(number);
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

// Renames unless `to` exists. 0 or errno.
int rename_exclusively(const char *from, const char *to) noexcept {
#ifdef RENAME_NOREPLACE
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
#endif
  // A file system without the atomic form: rename() would replace an empty folder, so look first.
  if (is_named(to)) return EEXIST;
  return rename(from, to) == 0 ? 0 : errno;
}

}  // namespace

FileWriter::FileWriter(std::string path, Descriptor descriptor) noexcept
    : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

std::unique_ptr<FileWriter> FileWriter::open(const std::string &path) {
  Descriptor descriptor =
      open_descriptor(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!descriptor.is_open()) {
    throw_system_error(path, errno == ELOOP ? "written to, being a link" : "opened for writing",
                       errno);
  }
  const struct stat facts = read_facts(descriptor.number(), path);
  if (!S_ISREG(facts.st_mode)) {
    throw_error(StatusCode::kIo, "'%s' is not a regular file (mode 0%o) and is not written to",
                path.c_str(), static_cast<unsigned>(facts.st_mode));
  }
  return std::unique_ptr<FileWriter>(new FileWriter(path, std::move(descriptor)));
}

void FileWriter::write_at(uint64_t offset, std::span<const uint8_t> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const uint64_t at = offset + done;
    if (at < offset || at > static_cast<uint64_t>(INT64_MAX)) {
      throw_write_error(path_, offset, bytes.size(), done, EOVERFLOW);
    }
    const ssize_t n = pwrite(descriptor_.number(), bytes.data() + done,
                             std::min(bytes.size() - done, kPieceBytes), static_cast<off_t>(at));
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0) {
      throw_write_error(path_, offset, bytes.size(), done, ENOSPC);
    } else if (errno != EINTR) {
      throw_write_error(path_, offset, bytes.size(), done, errno);
    }
  }
}

void FileWriter::begin_sync([[maybe_unused]] uint64_t offset,
                            [[maybe_unused]] uint64_t bytes) noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
  if (bytes == 0) return;  // the system would take it for everything up to the end
  sync_file_range(descriptor_.number(), static_cast<off_t>(offset), static_cast<off_t>(bytes),
                  SYNC_FILE_RANGE_WRITE);
#endif
}

void FileWriter::sync() {
  const int error = sync_descriptor(descriptor_.number(), false);
  if (error == 0) return;
  throw_error(StatusCode::kIo, "'%s' cannot be brought to the disk: %s (errno %d)%s", path_.c_str(),
              ErrorText(error).text, error, write_advice(error));
}

uint64_t FileWriter::disk_bytes() const {
  return static_cast<uint64_t>(read_facts(descriptor_.number(), path_).st_blocks) * kStatBlockBytes;
}

void FileWriter::resize(uint64_t bytes) {
  int result = -1;
  errno = EFBIG;
  if (bytes <= static_cast<uint64_t>(INT64_MAX)) {
    do {
      result = ftruncate(descriptor_.number(), static_cast<off_t>(bytes));
    } while (result != 0 && errno == EINTR);
  }
  if (result == 0) return;
  const int error = errno;
  throw_error(StatusCode::kIo, "'%s' cannot have %" PRIu64 " bytes: %s (errno %d)%s", path_.c_str(),
              bytes, ErrorText(error).text, error, write_advice(error));
}

void FileWriter::forget_cached() noexcept {
  posix_fadvise(descriptor_.number(), 0, 0, POSIX_FADV_DONTNEED);
}

void make_directory(const std::string &path) {
  const bool has_nul = path.find('\0') != std::string::npos;
  if (!has_nul && mkdir(path.c_str(), 0777) == 0) return;
  const int error = has_nul ? ENOENT : errno;
  if (error == EEXIST && directory_exists(path)) return;
  throw_error(StatusCode::kIo, "folder '%s' cannot be made: %s (errno %d)%s", path.c_str(),
              ErrorText(error).text, error, is_full(error) ? write_advice(error) : "");
}

void sync_directory(const std::string &path) {
  const Descriptor descriptor = open_descriptor(path, O_RDONLY | O_DIRECTORY);
  if (!descriptor.is_open()) throw_system_error(path, "opened as a folder", errno);
  const int error = sync_descriptor(descriptor.number(), true);
  // Some file systems keep no folder in memory and answer EINVAL.
  if (error != 0 && error != EINVAL) throw_system_error(path, "brought to the disk", error);
}

void rename_new(const std::string &from, const std::string &to) {
  const int error = rename_exclusively(from.c_str(), to.c_str());
  if (error == 0) return;
  if (error == EEXIST || error == ENOTEMPTY) {
    throw_error(StatusCode::kArgument, "'%s' exists already; '%s' cannot take its name", to.c_str(),
                from.c_str());
  }
  throw_error(StatusCode::kIo, "'%s' cannot be renamed to '%s': %s (errno %d)", from.c_str(),
              to.c_str(), ErrorText(error).text, error);
}

void remove_file(const std::string &path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) throw_system_error(path, "removed", errno);
}

uint64_t free_disk_bytes(const std::string &path) {
  struct statvfs facts;
  if (statvfs(path.c_str(), &facts) != 0) {
    throw_system_error(path, "asked for the space of its disk", errno);
  }
  return static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize;
}

// Whoever held the lock before may have removed the file while this object waited for nothing: a
// lock on a file without a name protects nobody, so the name is looked at again.
FileLock::FileLock(const std::string &path)
    : descriptor_(open_descriptor(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK)) {
  if (!descriptor_.is_open()) throw_system_error(path, "opened as a lock", errno);
  int result = 0;
  do {
    result = flock(descriptor_.number(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EWOULDBLOCK) throw_system_error(path, "locked", errno);
  struct stat named;
  const bool is_held = result == 0 && stat(path.c_str(), &named) == 0 &&
                       named.st_ino == read_facts(descriptor_.number(), path).st_ino;
  if (is_held) return;
  throw_error(StatusCode::kBusy, "'%s' is held by another process; wait until it has ended",
              path.c_str());
}

// The lock belongs to the open file, which a forked child of the host may share.
FileLock::~FileLock() {
  flock(descriptor_.number(), LOCK_UN);
}

}  // namespace colibri

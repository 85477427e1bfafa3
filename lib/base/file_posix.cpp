// SPDX-License-Identifier: Apache-2.0
//
// Files through POSIX calls. A file is opened without blocking and only kept if it is a regular
// one, so a pipe or a device in place of a weight file is an error and not a wait without end.

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <system_error>
#include <utility>

#include "lib/base/descriptor.h"
#include "lib/base/file.h"

namespace colibri {
namespace {

constexpr size_t kPieceBytes = size_t{1}
                               << 30;  // one pread of 2 GiB or more is cut by Linux anyway

bool is_absent(int error) noexcept {
  return error == ENOENT || error == ENOTDIR;
}

// A string with a NUL inside would silently name another file.
bool has_nul(const std::string &path) noexcept {
  return path.find('\0') != std::string::npos;
}

[[noreturn]] void throw_open_error(const char *what, const std::string &path, int error) {
  throw_error(is_absent(error) ? StatusCode::kNotFound : StatusCode::kIo,
              "%s '%s' cannot be opened: %s (errno %d)", what, path.c_str(), ErrorText(error).text,
              error);
}

class FileReader final : public Reader {
 public:
  FileReader(Descriptor descriptor, uint64_t size, std::string name) noexcept
      : descriptor_(std::move(descriptor)), size_(size), name_(std::move(name)) {}

  uint64_t size() const noexcept override { return size_; }
  const std::string &name() const noexcept override { return name_; }
  Status read_at(uint64_t offset, void *destination, size_t bytes) const noexcept override;

 private:
  Descriptor descriptor_;
  uint64_t size_;
  std::string name_;
};

Status FileReader::read_at(uint64_t offset, void *destination, size_t bytes) const noexcept {
  uint8_t *next = static_cast<uint8_t *>(destination);
  size_t got = 0;
  const char *why = "end of file; the file is shorter than it was or than it claims";
  int error = 0;
  while (got < bytes) {
    const uint64_t at = offset + got;
    if (at < offset || at > static_cast<uint64_t>(INT64_MAX)) {
      error = EOVERFLOW;
      break;
    }
    const ssize_t n = pread(descriptor_.number(), next + got, std::min(bytes - got, kPieceBytes),
                            static_cast<off_t>(at));
    if (n > 0) {
      got += static_cast<size_t>(n);
    } else if (n == 0) {
      break;
    } else if (errno != EINTR) {
      error = errno;
      break;
    }
  }
  if (got == bytes) return Status();
  const ErrorText text(error);
  if (error != 0) why = text.text;
  return make_status(StatusCode::kIo,
                     "'%s': read at offset %" PRIu64 " wanted %zu bytes and got %zu: %s (errno %d)",
                     name_.c_str(), offset, bytes, got, why, error);
}

class MemoryReader final : public Reader {
 public:
  MemoryReader(std::string name, std::vector<uint8_t> bytes) noexcept
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  uint64_t size() const noexcept override { return bytes_.size(); }
  const std::string &name() const noexcept override { return name_; }
  Status read_at(uint64_t offset, void *destination, size_t bytes) const noexcept override {
    const uint64_t got = offset < bytes_.size() ? bytes_.size() - offset : 0;
    if (got < bytes) {
      return make_status(StatusCode::kIo,
                         "'%s': read at offset %" PRIu64 " wanted %zu bytes and got %" PRIu64
                         ": end of data",
                         name_.c_str(), offset, bytes, got);
    }
    if (bytes != 0) std::memcpy(destination, bytes_.data() + offset, bytes);
    return Status();
  }

 private:
  std::string name_;
  std::vector<uint8_t> bytes_;
};

struct DirectoryCloser {
  void operator()(DIR *directory) const noexcept { closedir(directory); }
};

bool has_kind(const char *path, mode_t kind) noexcept {
  struct stat facts;
  return stat(path, &facts) == 0 && (facts.st_mode & S_IFMT) == kind;
}

// The part of a path that counts: without slashes at its end, except the root itself.
size_t trimmed_length(const std::string &path) noexcept {
  size_t length = path.size();
  while (length > 1 && path[length - 1] == '/') --length;
  return length;
}

}  // namespace

std::unique_ptr<Reader> open_file(const std::string &path) {
  Descriptor descriptor = open_descriptor(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!descriptor.is_open()) throw_open_error("file", path, errno);
  struct stat facts;
  if (fstat(descriptor.number(), &facts) != 0) throw_open_error("file", path, errno);
  if (!S_ISREG(facts.st_mode)) {
    throw_error(StatusCode::kIo, "'%s' is not a regular file (mode 0%o); give the path of a file",
                path.c_str(), static_cast<unsigned>(facts.st_mode));
  }
  return std::make_unique<FileReader>(std::move(descriptor), static_cast<uint64_t>(facts.st_size),
                                      path);
}

std::unique_ptr<Reader> make_memory_reader(std::string name, std::vector<uint8_t> bytes) {
  return std::make_unique<MemoryReader>(std::move(name), std::move(bytes));
}

std::vector<uint8_t> read_whole_file(const std::string &path, uint64_t max_bytes) {
  const std::unique_ptr<Reader> reader = open_file(path);
  if (reader->size() > max_bytes) {
    throw_error(StatusCode::kFormat,
                "'%s' has %" PRIu64 " bytes; a file of this kind may have at most %" PRIu64,
                path.c_str(), reader->size(), max_bytes);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(reader->size()));
  throw_if_failed(reader->read_at(0, bytes.data(), bytes.size()));
  return bytes;
}

bool file_exists(const std::string &path) noexcept {
  return !has_nul(path) && has_kind(path.c_str(), S_IFREG);
}

bool is_named(const std::string &path) noexcept {
  if (has_nul(path)) return false;
  struct stat facts;
  return lstat(path.c_str(), &facts) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool directory_exists(const std::string &path) noexcept {
  return !has_nul(path) && has_kind(path.c_str(), S_IFDIR);
}

std::vector<std::string> list_files(const std::string &directory) {
  if (has_nul(directory)) throw_open_error("folder", directory, ENOENT);
  const std::unique_ptr<DIR, DirectoryCloser> stream(opendir(directory.c_str()));
  if (!stream) throw_open_error("folder", directory, errno);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent *entry = readdir(stream.get());
    if (entry == nullptr) break;
    struct stat facts;
    if (fstatat(dirfd(stream.get()), entry->d_name, &facts, 0) != 0) continue;  // dangling link
    if (S_ISREG(facts.st_mode)) names.emplace_back(entry->d_name);
  }
  if (errno != 0) {
    const int error = errno;
    throw_error(StatusCode::kIo, "folder '%s' cannot be listed: %s (errno %d)", directory.c_str(),
                ErrorText(error).text, error);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string join_path(const std::string &directory, const std::string &name) {
  if (directory.empty()) return name;
  return directory.back() == '/' ? directory + name : directory + '/' + name;
}

std::string parent_directory(const std::string &path) {
  const size_t length = trimmed_length(path);
  const size_t slash = path.rfind('/', length == 0 ? 0 : length - 1);
  if (slash == std::string::npos) return ".";
  const std::string parent = path.substr(0, slash);
  return slash == 0 ? "/" : parent.substr(0, trimmed_length(parent));
}

std::string file_name(const std::string &path) {
  const std::string trimmed = path.substr(0, trimmed_length(path));
  const size_t slash = trimmed.rfind('/');
  return slash == std::string::npos ? trimmed : trimmed.substr(slash + 1);
}

}  // namespace colibri

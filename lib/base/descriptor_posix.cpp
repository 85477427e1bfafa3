// SPDX-License-Identifier: Apache-2.0

#include "lib/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace colibri {
namespace {

// strerror_r has two forms; overloads pick the text out of either.
[[maybe_unused]] const char *error_text(int result, const char *buffer) noexcept {
  return result == 0 ? buffer : "unknown error";
}
[[maybe_unused]] const char *error_text(const char *result, const char *) noexcept {
  return result;
}

int move_above_standard_streams(int number) noexcept {
  const int higher = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  close(number);
  errno = error;
  return higher;
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Descriptor open_descriptor(const std::string &path, int flags) noexcept {
  if (path.find('\0') != std::string::npos) {
    errno = ENOENT;
    return Descriptor(-1);
  }
  int number = -1;
  do {
    number = open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (number < 0 && errno == EINTR);
  if (number >= 0 && number <= STDERR_FILENO) number = move_above_standard_streams(number);
  return Descriptor(number);
}

ErrorText::ErrorText(int error) noexcept {
  buffer[0] = '\0';
  text = error_text(strerror_r(error, buffer, sizeof(buffer)), buffer);
}

}  // namespace colibri

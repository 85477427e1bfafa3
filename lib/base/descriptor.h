// SPDX-License-Identifier: Apache-2.0
//
// What the files of OS calls share: an owned file descriptor, how one is opened, and the text of an
// errno value. Beside those files only file_writer.h includes it, whose objects own descriptors.

#pragma once

#include <string>
#include <utility>

namespace colibri {

class Descriptor {
 public:
  // Owns `number`; -1 for none.
  explicit Descriptor(int number) noexcept : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  bool is_open() const noexcept { return number_ >= 0; }
  int number() const noexcept { return number_; }

 private:
  int number_;
};

// open(2) with O_CLOEXEC, not ended by signals; a new file has mode 0666 less the umask. The number
// is never that of a standard stream, even if the host has closed those: whoever reads or reopens
// them must not meet the weights of a model there. On failure not open, and errno is set; a path
// with a NUL inside, which would silently name another file, is ENOENT.
Descriptor open_descriptor(const std::string &path, int flags) noexcept;

// The text of an errno value, in place: read_at may not allocate.
struct ErrorText {
  explicit ErrorText(int error) noexcept;
  char buffer[96];
  const char *text;
};

}  // namespace colibri

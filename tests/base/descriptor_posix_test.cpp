// SPDX-License-Identifier: Apache-2.0
//
// Descriptors: ownership, and where their numbers lie.

#include "lib/base/descriptor.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/base/temporary_folder.h"
#include "tests/support/catch.h"

using colibri::Descriptor;
using colibri::ErrorText;
using colibri::open_descriptor;
using colibri::test::TemporaryFolder;

namespace {

bool is_open(int number) {
  return fcntl(number, F_GETFD) != -1;
}

}  // namespace

TEST_CASE("a descriptor is closed once, by its last owner") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "x");
  int number = -1;
  {
    Descriptor first = open_descriptor(path, O_RDONLY);
    REQUIRE(first.is_open());
    number = first.number();
    {
      const Descriptor second(std::move(first));
      CHECK(second.number() == number);
      CHECK(is_open(number));
    }
    CHECK_FALSE(is_open(number));
  }
}

TEST_CASE("programs that are started inherit no descriptor") {
  const TemporaryFolder folder;
  const Descriptor descriptor = open_descriptor(folder.write("file", "x"), O_RDONLY);
  CHECK((fcntl(descriptor.number(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("what cannot be opened says why in errno") {
  const TemporaryFolder folder;
  errno = 0;
  CHECK_FALSE(open_descriptor(folder.path() + "/absent", O_RDONLY).is_open());
  CHECK(errno == ENOENT);
  const std::string path = folder.write("file", "x");
  CHECK_FALSE(open_descriptor(path + std::string("\0.x", 3), O_RDONLY).is_open());
  CHECK(errno == ENOENT);
  CHECK_FALSE(open_descriptor(path, O_RDONLY | O_DIRECTORY).is_open());
  CHECK(errno == ENOTDIR);
}

TEST_CASE("a file is never opened under the number of a closed standard stream") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "x");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(0);
    close(1);
    close(2);
    const Descriptor descriptor = open_descriptor(path, O_RDONLY);
    _exit(descriptor.number() > 2 && !is_open(0) && !is_open(1) && !is_open(2) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("an errno value has a text") {
  CHECK(std::string(ErrorText(ENOENT).text) == "No such file or directory");
  CHECK(std::string(ErrorText(123456).text).find("nknown") != std::string::npos);
}

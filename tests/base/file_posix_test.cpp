// SPDX-License-Identifier: Apache-2.0
//
// Readers over files and memory, folders, and paths; wrong input first.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "lib/base/file.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::test::TemporaryFolder;

namespace {

template <typename Function>
Status status_of(Function function) {
  try {
    function();
  } catch (const Error &error) {
    return error.status();
  }
  return Status();
}

bool mentions(const Status &status, const std::string &part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("opening what is absent is a not-found error that names the path") {
  const TemporaryFolder folder;
  const std::string absent = folder.path() + "/absent.bin";
  const std::string below_file = folder.write("file", "x") + "/below";
  for (const std::string &path : {absent, below_file, std::string()}) {
    const Status status = status_of([&] { open_file(path); });
    REQUIRE(status.code() == StatusCode::kNotFound);
    REQUIRE(mentions(status, "'" + path + "'"));
  }
}

TEST_CASE("a path with a NUL inside opens nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", "x") + std::string("\0.txt", 5);
  REQUIRE(status_of([&] { open_file(path); }).code() == StatusCode::kNotFound);
  REQUIRE(status_of([&] { list_files(folder.path() + std::string("\0x", 2)); }).code() ==
          StatusCode::kNotFound);
  REQUIRE_FALSE(file_exists(path));
  REQUIRE_FALSE(directory_exists(folder.path() + std::string("\0x", 2)));
}

TEST_CASE("a folder or a pipe is not opened as a file and does not block") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string &path : {folder.path(), pipe}) {
    const Status status = status_of([&] { open_file(path); });
    REQUIRE(status.code() == StatusCode::kIo);
    REQUIRE(mentions(status, "not a regular file"));
  }
}

TEST_CASE("positional reads return the bytes at their offset") {
  const TemporaryFolder folder;
  std::string content(100003, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + i / 251);
  const auto file = open_file(folder.write("data.bin", content));
  const auto memory = make_memory_reader("memory", {content.begin(), content.end()});
  for (const Reader *reader : {file.get(), memory.get()}) {
    REQUIRE(reader->size() == content.size());
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{4095}, size_t{99990}}) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{13}}) {
        std::string got(bytes, '#');
        REQUIRE(reader->read_at(offset, got.data(), bytes).is_ok());
        REQUIRE(got == content.substr(offset, bytes));
      }
    }
    std::string whole(content.size(), '#');
    REQUIRE(reader->read_at(0, whole.data(), whole.size()).is_ok());
    REQUIRE(whole == content);
    REQUIRE(reader->read_at(content.size(), nullptr, 0).is_ok());
  }
  REQUIRE(memory->name() == "memory");
  REQUIRE(file->name() == folder.path() + "/data.bin");
}

TEST_CASE("a read beyond the end says file, offset, wanted and got bytes") {
  const TemporaryFolder folder;
  const std::string path = folder.write("short.bin", "0123456789");
  const auto file = open_file(path);
  const auto memory = make_memory_reader("mem", std::vector<uint8_t>(10));
  char bytes[16];
  const Status cut = file->read_at(7, bytes, 5);
  REQUIRE(cut.code() == StatusCode::kIo);
  REQUIRE(mentions(cut, path));
  REQUIRE(mentions(cut, "offset 7 wanted 5 bytes and got 3"));
  REQUIRE(mentions(cut, "end of file"));
  REQUIRE(
      mentions(memory->read_at(7, bytes, 5), "'mem': read at offset 7 wanted 5 bytes and got 3"));
  for (const uint64_t offset : {uint64_t{10}, uint64_t{1} << 40, UINT64_MAX - 2, UINT64_MAX}) {
    REQUIRE(file->read_at(offset, bytes, 4).code() == StatusCode::kIo);
    REQUIRE(memory->read_at(offset, bytes, 4).code() == StatusCode::kIo);
    REQUIRE(mentions(file->read_at(offset, bytes, 4), "got 0"));
  }
}

TEST_CASE("a file that is cut after opening gives an error and no fault") {
  const TemporaryFolder folder;
  const std::string path = folder.write("cut.bin", std::string(10000, 'a'));
  const auto reader = open_file(path);
  REQUIRE(truncate(path.c_str(), 5000) == 0);
  std::vector<char> bytes(10000);
  const Status status = reader->read_at(0, bytes.data(), bytes.size());
  REQUIRE(status.code() == StatusCode::kIo);
  REQUIRE(mentions(status, "wanted 10000 bytes and got 5000"));
}

TEST_CASE("a read into memory that is not there is an error with errno") {
  const TemporaryFolder folder;
  const auto reader = open_file(folder.write("a.bin", std::string(100, 'a')));
  const Status status = reader->read_at(0, reinterpret_cast<void *>(16), 50);
  REQUIRE(status.code() == StatusCode::kIo);
  REQUIRE(mentions(status, "errno 14"));
}

TEST_CASE("descriptors are closed with their reader and on exec") {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.bin", "abc");
  const int before = dup(0);
  REQUIRE(before >= 0);
  close(before);
  {
    const auto reader = open_file(path);
    REQUIRE((fcntl(before, F_GETFD) & FD_CLOEXEC) != 0);
    REQUIRE_THROWS_AS(open_file(folder.path()), Error);
  }
  REQUIRE(fcntl(before, F_GETFD) == -1);
  REQUIRE(fcntl(before + 1, F_GETFD) == -1);
}

TEST_CASE("a sparse file larger than 4 GiB is read behind its first 4 GiB") {
  const TemporaryFolder folder;
  const std::string path = folder.write("big.bin", "");
  const uint64_t offset = (uint64_t{1} << 32) + 12345;
  const int number = open(path.c_str(), O_WRONLY);
  const ssize_t written = pwrite(number, "tail", 4, static_cast<off_t>(offset));
  close(number);
  REQUIRE(written == 4);
  const auto reader = open_file(path);
  REQUIRE(reader->size() == offset + 4);
  std::string tail(4, '#');
  REQUIRE(reader->read_at(offset, tail.data(), 4).is_ok());
  REQUIRE(tail == "tail");
}

TEST_CASE("a whole file is read up to the size that the caller allows") {
  const TemporaryFolder folder;
  const std::string path = folder.write("config.json", "{\"a\": 1}");
  const std::vector<uint8_t> bytes = read_whole_file(path, 8);
  REQUIRE(std::string(bytes.begin(), bytes.end()) == "{\"a\": 1}");
  const Status status = status_of([&] { read_whole_file(path, 7); });
  REQUIRE(status.code() == StatusCode::kFormat);
  REQUIRE(mentions(status, "has 8 bytes"));
  REQUIRE(mentions(status, "at most 7"));
  REQUIRE(read_whole_file(folder.write("empty", ""), 0).empty());
  REQUIRE(status_of([&] { read_whole_file(folder.path() + "/none", 9); }).code() ==
          StatusCode::kNotFound);
}

TEST_CASE("files and folders are told apart, links followed") {
  const TemporaryFolder folder;
  const std::string file = folder.write("sub/file", "x");
  std::filesystem::create_symlink(file, folder.path() + "/link");
  std::filesystem::create_symlink("nowhere", folder.path() + "/dangling");
  REQUIRE(file_exists(file));
  REQUIRE(file_exists(folder.path() + "/link"));
  REQUIRE_FALSE(file_exists(folder.path() + "/dangling"));
  REQUIRE_FALSE(file_exists(folder.path() + "/sub"));
  REQUIRE(directory_exists(folder.path() + "/sub"));
  REQUIRE_FALSE(directory_exists(file));
  REQUIRE_FALSE(directory_exists(""));
}

TEST_CASE("a folder lists its regular files sorted bytewise") {
  const TemporaryFolder folder;
  for (const char *name : {"b", "a-10", "a-2", "Z", ".hidden", "sub/inner"})
    folder.write(name, "x");
  std::filesystem::create_symlink("b", folder.path() + "/link");
  std::filesystem::create_symlink("nowhere", folder.path() + "/dangling");
  REQUIRE(list_files(folder.path()) ==
          std::vector<std::string>{".hidden", "Z", "a-10", "a-2", "b", "link"});
  REQUIRE(status_of([&] { list_files(folder.path() + "/none"); }).code() == StatusCode::kNotFound);
  REQUIRE(status_of([&] { list_files(folder.path() + "/b"); }).code() == StatusCode::kNotFound);
}

TEST_CASE("paths are joined and split by text alone") {
  REQUIRE(join_path("a", "b") == "a/b");
  REQUIRE(join_path("a/", "b") == "a/b");
  REQUIRE(join_path("", "b") == "b");
  REQUIRE(join_path("/", "b") == "/b");
  REQUIRE(parent_directory("a/b") == "a");
  REQUIRE(parent_directory("a//b/") == "a");
  REQUIRE(parent_directory("a") == ".");
  REQUIRE(parent_directory("a/") == ".");
  REQUIRE(parent_directory("/a") == "/");
  REQUIRE(parent_directory("//a") == "/");
  REQUIRE(parent_directory("/") == "/");
  REQUIRE(parent_directory("") == ".");
  REQUIRE(parent_directory("./a") == ".");
  REQUIRE(file_name("a/b.bin") == "b.bin");
  REQUIRE(file_name("a/b/") == "b");
  REQUIRE(file_name("b") == "b");
  REQUIRE(file_name("/").empty());
  REQUIRE(file_name("").empty());
}

// SPDX-License-Identifier: Apache-2.0
//
// Writing of files, names and locks; what must not be written to comes first.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/file_writer.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/catch.h"
#include "tests/support/small_disk.h"

using namespace colibri;
using colibri::test::run_on_small_disk;
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

void expect(const Status &status, StatusCode code, std::string_view part) {
  INFO(status.message());
  CHECK(static_cast<int>(status.code()) == static_cast<int>(code));
  CHECK(std::string_view(status.message()).find(part) != std::string_view::npos);
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string content_of(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// The largest file that this process may write, while the object lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("only regular files are opened for writing, and no links") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string target = folder.write("target", "kept");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink(target, link);
  for (const std::string &path :
       {pipe, link, folder.path(), target + "/below", folder.path() + "/absent/file", std::string(),
        target + std::string("\0x", 2)}) {
    expect(status_of([&] { FileWriter::open(path); }), StatusCode::kIo, path.c_str());
  }
  expect(status_of([&] { FileWriter::open(link); }), StatusCode::kIo, "link");
  CHECK(content_of(target) == "kept");
}

TEST_CASE("a file is made if absent, and bytes of an existing one stay") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/file";
  FileWriter::open(path)->write_at(3, bytes_of("defg"));
  CHECK(content_of(path) == std::string("\0\0\0defg", 7));
  const auto again = FileWriter::open(path);
  CHECK(again->path() == path);
  again->write_at(0, bytes_of("abc"));
  again->write_at(7, {});
  again->begin_sync(0, 7);
  again->begin_sync(UINT64_MAX, UINT64_MAX);
  again->sync();
  again->forget_cached();
  CHECK(content_of(path) == "abcdefg");
}

TEST_CASE("resizing cuts, and extends with a hole of zeros") {
  const TemporaryFolder folder;
  const auto file = FileWriter::open(folder.path() + "/file");
  file->write_at(0, bytes_of("abcdef"));
  file->resize(2);
  file->resize(4);
  CHECK(content_of(file->path()) == std::string("ab\0\0", 4));
  file->resize(64 << 20);
  CHECK(std::filesystem::file_size(file->path()) == 64 << 20);
  CHECK(file->disk_bytes() < 1 << 20);
  const std::vector<uint8_t> mebibyte(1 << 20, 1);
  file->write_at(32 << 20, mebibyte);
  file->sync();
  CHECK(file->disk_bytes() >= 1 << 20);
  expect(status_of([&] { file->resize(UINT64_MAX); }), StatusCode::kIo, "18446744073709551615");
}

TEST_CASE("threads write different ranges of one file at once") {
  const TemporaryFolder folder;
  const auto file = FileWriter::open(folder.path() + "/file");
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&file, t] {
      const std::string piece(1000, static_cast<char>('a' + t));
      for (size_t i = 0; i < 50; ++i) file->write_at((i * 4 + t) * 1000, bytes_of(piece));
    });
  }
  for (std::thread &thread : threads) thread.join();
  const std::string content = content_of(file->path());
  REQUIRE(content.size() == 200000);
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] != static_cast<char>('a' + i / 1000 % 4)) FAIL("byte " << i);
  }
}

TEST_CASE("a write that does not fit names the file, the place and the bytes") {
  const TemporaryFolder folder;
  const auto file = FileWriter::open(folder.path() + "/file");
  for (const uint64_t offset : {uint64_t{INT64_MAX} + 1, UINT64_MAX, UINT64_MAX - 1}) {
    expect(status_of([&] { file->write_at(offset, bytes_of("abc")); }), StatusCode::kIo,
           std::to_string(offset));
  }
  const FileSizeLimit limit(4096);
  const std::vector<uint8_t> piece(3000);
  file->write_at(0, piece);
  const Status status = status_of([&] { file->write_at(3000, piece); });
  expect(status, StatusCode::kIo, "offset 3000 wanted 3000 bytes and wrote 1096");
  expect(status, StatusCode::kIo, "larger files");
  expect(status, StatusCode::kIo, file->path());
  expect(status_of([&] { file->resize(5000); }), StatusCode::kIo, "5000");
}

TEST_CASE("a full disk is called so, with the bytes that were wanted") {
  const TemporaryFolder folder;
  const auto text = run_on_small_disk(folder.path(), 256 << 10, [&] {
    const auto file = FileWriter::open(folder.path() + "/file");
    const uint64_t before = free_disk_bytes(folder.path());
    const std::vector<uint8_t> piece(200'000);
    file->write_at(0, piece);
    const uint64_t after = free_disk_bytes(folder.path());
    const Status status = status_of([&] { file->write_at(200'000, piece); });
    return std::to_string(before - after) + " " + status.message();
  });
  if (!text) {
    WARN("skipped: this system lets a test mount nothing");
    return;
  }
  INFO(*text);
  CHECK(text->find("200704 ") == 0);
  CHECK(text->find("offset 200000 wanted 200000 bytes and wrote ") != std::string::npos);
  CHECK(text->find("the disk is full") != std::string::npos);
}

TEST_CASE("folders are made once and one floor at a time") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/new";
  make_directory(path);
  make_directory(path);
  CHECK(directory_exists(path));
  sync_directory(path);
  sync_directory(folder.path());
  expect(status_of([&] { make_directory(path + "/a/b"); }), StatusCode::kIo, path + "/a/b");
  const std::string file = folder.write("file", "x");
  expect(status_of([&] { make_directory(file); }), StatusCode::kIo, file);
  expect(status_of([&] { make_directory(file + "/below"); }), StatusCode::kIo, file);
  expect(status_of([&] { make_directory(path + std::string("\0x", 2)); }), StatusCode::kIo, path);
  expect(status_of([&] { sync_directory(file); }), StatusCode::kIo, file);
}

TEST_CASE("renaming replaces nothing, also no empty folder") {
  const TemporaryFolder folder;
  const std::string from = folder.path() + "/from";
  const std::string to = folder.path() + "/to";
  make_directory(from);
  make_directory(to);
  expect(status_of([&] { rename_new(from, to); }), StatusCode::kArgument, to);
  std::filesystem::remove(to);
  folder.write("to", "a file");
  expect(status_of([&] { rename_new(from, to); }), StatusCode::kArgument, "exists");
  remove_file(to);
  rename_new(from, to);
  CHECK(directory_exists(to));
  CHECK_FALSE(is_named(from));
  expect(status_of([&] { rename_new(from, to + "2"); }), StatusCode::kIo, from);
}

TEST_CASE("a file is removed, an absent one counts as removed, and a folder is refused") {
  const TemporaryFolder folder;
  remove_file(folder.path() + "/absent");
  const std::string file = folder.write("folder/file", "x");
  expect(status_of([&] { remove_file(folder.path() + "/folder"); }), StatusCode::kIo, "folder");
  remove_file(file);
  CHECK_FALSE(is_named(file));
}

TEST_CASE("the disk has room, and an absent path has no disk") {
  const TemporaryFolder folder;
  CHECK(free_disk_bytes(folder.path()) > 0);
  expect(status_of([&] { free_disk_bytes(folder.path() + "/absent"); }), StatusCode::kIo, "absent");
}

TEST_CASE("a lock is held once and ends with its object") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/lock";
  {
    const FileLock lock(path);
    expect(status_of([&] { FileLock second(path); }), StatusCode::kBusy, path);
  }
  const FileLock again(path);
  expect(status_of([&] { FileLock(folder.path() + "/absent/lock"); }), StatusCode::kIo, "absent");
}

TEST_CASE("a lock ends with its process, and not with a child that was forked") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/lock";
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const FileLock lock(path);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  expect(status_of([&] { FileLock lock(path); }), StatusCode::kBusy, path);
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  pid_t heir = -1;
  {
    const FileLock lock(path);
    heir = fork();
    REQUIRE(heir >= 0);
    if (heir == 0) pause();
  }
  CHECK(status_of([&] { FileLock lock(path); }).is_ok());
  kill(heir, SIGKILL);
  REQUIRE(waitpid(heir, nullptr, 0) == heir);
  close(ready[0]);
  close(ready[1]);
}

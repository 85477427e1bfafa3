// SPDX-License-Identifier: Apache-2.0
//
// The folder of an unfinished conversion: who may work in it, and how it gets its name.

#include "lib/convert/partial_folder.h"

#include <filesystem>

#include "lib/base/file.h"
#include "lib/convert/packed_writer.h"
#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("the partial folder stands beside the destination") {
  CHECK(partial_directory("/a/b") == "/a/b.partial");
  CHECK(partial_directory("/a/b//") == "/a/b.partial");
  CHECK(partial_directory("b") == "b.partial");
}

TEST_CASE("a destination that is taken is refused") {
  const TemporaryFolder folder;
  for (const char *name : {"file", "folder/", "link"}) {
    const std::string path = folder.path() + "/" + name;
    if (std::string(name) == "file") folder.write(name, "x");
    if (std::string(name) == "folder/") std::filesystem::create_directory(path);
    if (std::string(name) == "link") std::filesystem::create_symlink("nowhere", path);
    expect_failure(StatusCode::kArgument, {"exists already"},
                   [&] { PartialFolder(path, false, 0); });
    expect_failure(StatusCode::kArgument, {"exists already"},
                   [&] { PartialFolder(path, true, 0); });
  }
  expect_failure(StatusCode::kArgument, {"empty"}, [&] { PartialFolder("", false, 0); });
}

TEST_CASE("a partial folder is taken up on request only, and made if it is not there") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  { const PartialFolder partial(path, false, 0); }
  expect_failure(StatusCode::kArgument, {"out.partial", "option resume", "remove that folder"},
                 [&] { PartialFolder(path, false, 0); });
  const PartialFolder other(folder.path() + "/never_begun", true, 0);
  CHECK(is_named(other.path()));
  const PartialFolder partial(path + "/", true, 0);
  CHECK(partial.path() == path + ".partial");
}

TEST_CASE("a second conversion is told that the first one runs") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  const PartialFolder first(path, false, 0);
  for (const bool resumes : {false, true}) {
    expect_failure(StatusCode::kBusy, {"out.partial"}, [&] { PartialFolder(path, resumes, 0); });
  }
}

TEST_CASE("a parent that is absent, or is no folder, is an error with its path") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  expect_failure(StatusCode::kIo, {file}, [&] { PartialFolder(file + "/out", false, 0); });
  const std::string absent = folder.path() + "/absent";
  expect_failure(StatusCode::kIo, {absent}, [&] { PartialFolder(absent + "/out", false, 0); });
}

TEST_CASE("a disk that is too small is said before anything is made") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  const uint64_t wanted = uint64_t{1} << 60;
  expect_failure(StatusCode::kIo, {"disk is too small", std::to_string(wanted), "are free"},
                 [&] { PartialFolder(path, false, wanted); });
  CHECK_FALSE(is_named(path + ".partial"));
  const PartialFolder partial(path, false, 0);
  partial.require_space(0);
  expect_failure(StatusCode::kIo, {"disk is too small"}, [&] { partial.require_space(wanted); });
}

TEST_CASE("files of something else are refused by name") {
  const TemporaryFolder folder;
  const PartialFolder partial(folder.path() + "/out", false, 0);
  folder.write("out.partial/a", "x");
  folder.write("out.partial/conversion.journal", "x");
  partial.require_only({"a", "b"});
  folder.write("out.partial/model-00001-of-00009.safetensors", "x");
  expect_failure(StatusCode::kMismatch, {"model-00001-of-00009.safetensors"}, [&] {
    partial.require_only({"a", "b"});
  });
}

TEST_CASE("publishing leaves only the files of the snapshot, under its name") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  PartialFolder partial(path, false, 0);
  folder.write("out.partial/a", "content");
  folder.write("out.partial/conversion.journal", "x");
  partial.publish();
  CHECK(read_folder(path) == std::map<std::string, std::string>{{"a", "content"}});
  CHECK_FALSE(is_named(path + ".partial"));
}

TEST_CASE("publishing replaces nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  PartialFolder partial(path, false, 0);
  std::filesystem::create_directory(path);
  expect_failure(StatusCode::kArgument, {path}, [&] { partial.require_free_name(); });
  expect_failure(StatusCode::kArgument, {path}, [&] { partial.publish(); });
  CHECK(directory_exists(path + ".partial"));
  CHECK(read_folder(path).empty());
}

TEST_CASE("a folder that could not get its name is still locked and has its journal") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  PartialFolder partial(path, false, 0);
  folder.write("out.partial/conversion.journal", "x");
  std::filesystem::create_directory(path);
  expect_failure(StatusCode::kArgument, {path}, [&] { partial.publish(); });
  std::filesystem::remove(path);
  expect_failure(StatusCode::kBusy, {"out.partial"}, [&] { PartialFolder(path, true, 0); });
  CHECK(read_folder(path + ".partial").at("conversion.journal") == "x");
  partial.publish();
  CHECK(read_folder(path).empty());
}

TEST_CASE("a folder that was killed while it got its name is taken up again, or tidied") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  folder.write("out/conversion.journal", "j");
  folder.write("out/conversion.lock", "");
  expect_failure(StatusCode::kArgument, {"exists already"}, [&] { PartialFolder(path, false, 0); });
  {
    const FileLock publishing(path + "/conversion.lock");
    expect_failure(StatusCode::kBusy, {}, [&] { PartialFolder(path, true, 0); });
  }
  {
    const PartialFolder partial(path, true, 0);
    CHECK_FALSE(is_named(path));
    CHECK(is_named(partial.journal_path()));
  }
  folder.write("done/conversion.lock", "");
  expect_failure(StatusCode::kArgument, {"exists already"},
                 [&] { PartialFolder(folder.path() + "/done", true, 0); });
  CHECK_FALSE(is_named(folder.path() + "/done/conversion.lock"));
}

}  // namespace colibri::test

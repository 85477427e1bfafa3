// SPDX-License-Identifier: Apache-2.0
//
// Which files belong to a snapshot, by names and the index file.

#include "lib/snapshot/snapshot_files.h"

#include <filesystem>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Names = std::vector<std::string>;

std::string index_of(const std::string &shard) {
  return R"({"weight_map":{"t":")" + shard + "\"}}";
}

std::string missing_in(const Names &names) {
  const TempFolder folder;
  for (const std::string &name : names) folder.write(name, "");
  return locate_snapshot_files(folder.path()).missing;
}

}  // namespace

TEST_CASE("without an index file every safetensors file belongs, in bytewise order [L-31]") {
  const TempFolder folder;
  for (const char *name :
       {"b.safetensors", "a.safetensors", "B.safetensors", "note.txt", "x.safetensors.part"}) {
    folder.write(name, "");
  }
  const SnapshotFiles files = locate_snapshot_files(folder.path());
  CHECK(files.shards == Names{"B.safetensors", "a.safetensors", "b.safetensors"});
  CHECK(files.missing.empty());
  CHECK(files.weight_map.empty());
}

TEST_CASE("with an index file its shards and container files belong, others do not") {
  const TempFolder folder;
  for (const char *name : {"a.safetensors", "b.safetensors", "out-00000.safetensors"})
    folder.write(name, "");
  folder.write("model.safetensors.index.json", index_of("b.safetensors"));
  const SnapshotFiles files = locate_snapshot_files(folder.path());
  CHECK(files.shards == Names{"b.safetensors", "out-00000.safetensors"});
  REQUIRE(files.weight_map.size() == 1);
  CHECK(files.weight_map[0].first == "t");
}

TEST_CASE("absent numbers of a series are named [L-01]") {
  CHECK(missing_in({"m-00001-of-00003.safetensors", "m-00003-of-00003.safetensors"})
            .find("number 2") == 0);
  CHECK(missing_in({"m-00001-of-00009.safetensors", "m-00005-of-00009.safetensors"})
            .find("number 2-4, 6-9") == 0);
  CHECK(missing_in({"out-00000.safetensors", "out-00002.safetensors"}).find("number 1 of out-#") ==
        0);
  CHECK(missing_in({"out-00001.safetensors"}).find("number 0") == 0);
  CHECK(missing_in({"out-00000.safetensors", "out-mtp-00001.safetensors"})
            .find("number 0 of out-mtp-#") == 0);
  CHECK(missing_in({"m-00001-of-00002.safetensors", "m-00002-of-00002.safetensors"}).empty());
  CHECK(missing_in({"m-00000-of-00002.safetensors", "m-00001-of-00002.safetensors"}).empty());
  CHECK(missing_in({"model.safetensors", "out-00000.safetensors", "step-7.safetensors"}).empty());
}

TEST_CASE("shards that the index names and the folder lacks are named") {
  const TempFolder folder;
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"t":"a.safetensors","u":"b.safetensors","v":"c.safetensors"}})");
  folder.write("b.safetensors", "");
  const SnapshotFiles files = locate_snapshot_files(folder.path());
  CHECK(files.shards == Names{"b.safetensors"});
  CHECK(files.missing.find("a.safetensors and 1 more") == 0);
}

TEST_CASE("a shard name that is not one plain name is refused and reveals nothing [X-16, X-17]") {
  const TempFolder folder;
  folder.write("a.safetensors", "");
  folder.write("secret.safetensors", "");
  const std::string outside = folder.file("secret.safetensors");
  std::string message_of_present;
  for (const std::string &name :
       {outside, std::string("../x.safetensors"), std::string("sub/x.safetensors"),
        std::string(".."), std::string(""), std::string("sub\\\\x.safetensors"),
        std::string("x\\u0000.safetensors"), std::string("/etc/passwd"),
        std::string("/nonexistent/x.safetensors"), std::string("config.json"),
        std::string(300, 'a') + ".safetensors"}) {
    folder.write("model.safetensors.index.json", index_of(name));
    expect_failure(StatusCode::kFormat, {"refused", "one plain"},
                   [&] { locate_snapshot_files(folder.path()); });
  }
}

TEST_CASE("a broken index file is refused [X-19]") {
  const TempFolder folder;
  for (const char *text :
       {"", "[]", "{}", "{\"weight_map\":[]}", "{\"weight_map\":{\"t\":1}}", "{\"weight_map\":"}) {
    folder.write("model.safetensors.index.json", text);
    expect_failure(StatusCode::kFormat, {"model.safetensors.index.json"},
                   [&] { locate_snapshot_files(folder.path()); });
  }
}

TEST_CASE("links inside the folder are followed, as download caches need") {
  const TempFolder blobs;
  const TempFolder folder;
  blobs.write("0123abcd", "");
  std::filesystem::create_symlink(blobs.file("0123abcd"), folder.file("model.safetensors"));
  CHECK(locate_snapshot_files(folder.path()).shards == Names{"model.safetensors"});
}

TEST_CASE("a path that is no part of a snapshot is refused, foreign files by name [L-29, L-30]") {
  const TempFolder folder;
  folder.write("model.gguf", "GGUF\x03");
  folder.write("notes.txt", "hello");
  expect_failure(StatusCode::kNotFound, {"absent"},
                 [&] { locate_snapshot_files(folder.file("absent")); });
  expect_failure(StatusCode::kNotFound, {}, [&] { locate_snapshot_files(""); });
  expect_failure(StatusCode::kFormat, {"model.gguf", "GGUF"},
                 [&] { locate_snapshot_files(folder.file("model.gguf")); });
  expect_failure(StatusCode::kFormat, {"notes.txt"},
                 [&] { locate_snapshot_files(folder.file("notes.txt")); });
  expect_failure(StatusCode::kNotFound, {"model.gguf", "GGUF"},
                 [&] { locate_snapshot_files(folder.path()); });
}

TEST_CASE("more than 512 shards are refused [X-10]") {
  const TempFolder folder;
  for (int i = 0; i < 513; ++i) folder.write("part" + std::to_string(i) + ".safetensors", "");
  expect_failure(StatusCode::kFormat, {"513", "512"},
                 [&] { locate_snapshot_files(folder.path()); });
}

TEST_CASE("ranges of numbers are written short") {
  CHECK(describe_ranges({}).empty());
  CHECK(describe_ranges({4}) == "4");
  CHECK(describe_ranges({1, 2, 3, 7, 9, 10}) == "1-3, 7, 9-10");
}

}  // namespace colibri::test

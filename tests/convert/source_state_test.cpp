// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/source_state.h"

#include <chrono>
#include <filesystem>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace fs = std::filesystem;

TEST_CASE("the state of a source changes when a shard is written to, and only then") {
  const TempFolder folder;
  TinyModel().write_shards(folder, 2, false);
  const TensorIndex index = TensorIndex::open(folder.path());
  const uint64_t state = read_source_state(index);
  CHECK(read_source_state(TensorIndex::open(folder.path())) == state);
  folder.write("notes.txt", "x");
  CHECK(read_source_state(index) == state);
  const fs::path shard = folder.file("model-00002-of-00002.safetensors");
  const auto time = fs::last_write_time(shard);
  fs::last_write_time(shard, time + std::chrono::nanoseconds(1000));
  CHECK(read_source_state(index) != state);
  fs::last_write_time(shard, time);
  CHECK(read_source_state(index) == state);
  fs::resize_file(shard, fs::file_size(shard) + 1);
  fs::last_write_time(shard, time);
  CHECK(read_source_state(index) != state);
}

TEST_CASE("a destination in the source folder is refused, however it is spelled") {
  const TempFolder folder;
  fs::create_directory(folder.file("source"));
  fs::create_directory(folder.file("source/deep"));
  fs::create_directory(folder.file("source-packed"));
  fs::create_directory_symlink(folder.file("source"), folder.file("link"));
  const std::string source = folder.file("source");
  for (const char *inside : {"source", "source/", "source/packed", "source/deep/packed",
                             "source/deep/../packed", "link/packed", "source-packed/../source/x"}) {
    INFO(inside);
    expect_failure(StatusCode::kArgument, {"lies in the source folder"},
                   [&] { require_outside(folder.file(inside), source); });
    CHECK_THROWS_AS(require_outside(folder.file(inside), folder.file("link")), Error);
  }
  for (const char *outside :
       {"packed", "source-packed", "source-packed/x", "source/../packed", "absent/packed"}) {
    INFO(outside);
    CHECK_NOTHROW(require_outside(folder.file(outside), source));
  }
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong while a packed snapshot is written: each fault is named, and the work that was
// done is kept.

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "lib/base/file.h"
#include "lib/base/file_writer.h"
#include "lib/convert/packed_writer.h"
#include "lib/convert/partial_folder.h"
#include "lib/convert/shard_layout.h"
#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/small_disk.h"

namespace colibri::test {
namespace {

std::string error_text(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.what();
  }
  return "nothing was refused";
}

// A folder with a partial conversion in which three tensors are done.
struct Begun {
  Begun() {
    PackedWriter writer(make_plan(destination), false);
    for (size_t i = 0; i < 3; ++i) write_tensor(&writer, i);
  }

  void expect_refused(const PackedWriterPlan &plan, std::initializer_list<std::string_view> parts) {
    expect_failure(StatusCode::kMismatch, parts, [&] { PackedWriter(plan, true); });
    PackedWriter writer(make_plan(destination), true);
    CHECK(writer.is_done(2));
  }

  TemporaryFolder folder;
  std::string destination = folder.path() + "/out";
};

// File and place of a tensor in the partial folder.
std::pair<std::string, uint64_t> place_of(const PackedWriterPlan &plan, size_t tensor) {
  for (const ShardPlan &shard : cut_into_shards(plan)) {
    uint64_t offset = shard.data_begin;
    for (size_t i = 0; i < shard.n_tensors; ++i) {
      if (shard.first_tensor + i == tensor) {
        return {partial_directory(plan.destination) + "/" + shard.name, offset};
      }
      offset += plan.tensors[shard.first_tensor + i].bytes;
    }
  }
  FAIL("no tensor " << tensor);
  return {};
}

}  // namespace

TEST_CASE("a changed source, option, list or side file is refused by name and loses nothing") {
  Begun begun;
  PackedWriterPlan plan = make_plan(begun.destination);
  plan.source_identity ^= 1;
  begun.expect_refused(plan, {"source has changed"});
  plan = make_plan(begun.destination);
  plan.options.experts = "int8";
  begun.expect_refused(plan, {"other options", "experts=int4 there, experts=int8 now"});
  plan = make_plan(begun.destination);
  std::swap(plan.tensors[0], plan.tensors[1]);
  begun.expect_refused(plan, {"list of tensors"});
  plan = make_plan(begun.destination);
  plan.tensors[0].layout->parts[0].scale_type = ScaleType::kF32;
  plan.tensors[0].bytes = plan.tensors[0].layout->tensor_bytes();
  plan.tensors[0].shape = {plan.tensors[0].bytes};
  begun.expect_refused(plan, {"list of tensors"});
  plan = make_plan(begun.destination);
  plan.files[0].second.push_back(' ');
  begun.expect_refused(plan, {"config.json"});
}

TEST_CASE("another size of shards is another list of files and refused") {
  Begun begun;
  PackedWriterPlan plan = make_plan(begun.destination);
  plan.max_shard_bytes = 0;
  begun.expect_refused(plan, {"does not belong"});
}

TEST_CASE("a byte that changed on the disk is found before publishing and written again") {
  const TemporaryFolder folder;
  const PackedWriterPlan plan = make_plan(folder.path() + "/out");
  {
    PackedWriter writer(plan, false);
    write_rest(&writer);
  }
  for (const size_t tensor : {size_t{4}, plan.tensors.size() - 1}) {
    const auto [file, offset] = place_of(plan, tensor);
    flip_bit(file, offset + plan.tensors[tensor].bytes - 1);
  }
  {
    PackedWriter writer(plan, true);
    expect_failure(StatusCode::kIo, {"2 tensors", "layers.1.experts.4", "then resume"},
                   [&] { writer.publish(nullptr); });
    CHECK_FALSE(writer.is_done(4));
    CHECK_FALSE(is_named(plan.destination));
  }
  PackedWriter writer(plan, true);
  CHECK_FALSE(writer.is_done(4));
  CHECK(writer.is_done(3));
  write_rest(&writer);
  writer.publish(nullptr);
  CHECK(directory_exists(plan.destination));
}

TEST_CASE("a shard that was cut is made whole, and what it lost is written again") {
  const TemporaryFolder folder;
  const PackedWriterPlan plan = make_plan(folder.path() + "/out");
  {
    PackedWriter writer(plan, false);
    write_rest(&writer);
  }
  const auto [file, offset] = place_of(plan, 7);
  REQUIRE(truncate(file.c_str(), static_cast<off_t>(offset + 10)) == 0);
  PackedWriter writer(plan, true);
  expect_failure(StatusCode::kIo, {"layers.1.experts.7"}, [&] { writer.publish(nullptr); });
  write_rest(&writer);
  writer.publish(nullptr);
  CHECK(directory_exists(plan.destination));
}

TEST_CASE("two writers never work in one folder") {
  const TemporaryFolder folder;
  const PackedWriterPlan plan = make_plan(folder.path() + "/out");
  PackedWriter first(plan, false);
  for (const bool resumes : {false, true}) {
    expect_failure(StatusCode::kBusy, {"out.partial"}, [&] { PackedWriter(plan, resumes); });
  }
  write_rest(&first);
  first.publish(nullptr);
  expect_failure(StatusCode::kArgument, {"exists"}, [&] { PackedWriter(plan, false); });
}

TEST_CASE("a destination that appears meanwhile is not replaced and costs no work") {
  const TemporaryFolder folder;
  const PackedWriterPlan plan = make_plan(folder.path() + "/out");
  {
    PackedWriter writer(plan, false);
    write_rest(&writer);
    std::filesystem::create_directory(plan.destination);
    expect_failure(StatusCode::kArgument, {"exists"}, [&] { writer.publish(nullptr); });
  }
  CHECK(read_folder(plan.destination).empty());
  std::filesystem::remove(plan.destination);
  PackedWriter writer(plan, true);
  for (size_t i = 0; i < plan.tensors.size(); ++i) CHECK(writer.is_done(i));
  writer.publish(nullptr);
  CHECK(directory_exists(plan.destination));
}

TEST_CASE("a snapshot with a tensor missing is not published") {
  const TemporaryFolder folder;
  PackedWriter writer(make_plan(folder.path() + "/out"), false);
  for (size_t i = 0; i + 1 < writer.plan().tensors.size(); ++i) write_tensor(&writer, i);
  expect_failure(StatusCode::kState, {"norm"}, [&] { writer.publish(nullptr); });
  write_rest(&writer);
  writer.publish(nullptr);
  expect_failure(StatusCode::kState, {"published already"}, [&] { writer.publish(nullptr); });
}

TEST_CASE("bytes that belong nowhere are refused") {
  const TemporaryFolder folder;
  PackedWriter writer(make_plan(folder.path() + "/out"), false);
  const std::vector<uint8_t> byte(1);
  const uint64_t bytes = writer.plan().tensors[0].bytes;
  writer.append(0, byte);
  expect_failure(StatusCode::kInternal, {"tensor 1"}, [&] { writer.append(1, byte); });
  expect_failure(StatusCode::kInternal, {"few bytes", "experts.0"},
                 [&] { writer.finish_tensor(0); });
  expect_failure(StatusCode::kInternal, {"many bytes", "experts.0"},
                 [&] { writer.append(0, std::vector<uint8_t>(bytes)); });
  writer.append(0, std::vector<uint8_t>(bytes - 1));
  writer.finish_tensor(0);
  expect_failure(StatusCode::kInternal, {"tensor 0"}, [&] { writer.append(0, byte); });
  expect_failure(StatusCode::kInternal, {"tensor 13"}, [&] { writer.append(13, byte); });
}

TEST_CASE("a disk that cannot hold the snapshot is refused with both numbers before work begins") {
  const TemporaryFolder folder;
  const auto text = run_on_small_disk(folder.path(), 256 << 10, [&] {
    return error_text([&] { PackedWriter(make_plan(folder.path() + "/out"), false); });
  });
  if (!text) {
    WARN("skipped: this system lets a test mount nothing");
    return;
  }
  INFO(*text);
  uint64_t needed = 0;
  for (const ShardPlan &shard : cut_into_shards(make_plan("unused"))) needed += shard.file_bytes;
  CHECK(text->find(std::to_string(needed + 70'003) + " bytes are needed") != std::string::npos);
  CHECK(text->find("262144 are free") != std::string::npos);
}

TEST_CASE("a disk that fills up stops the writing, and room lets it go on") {
  const TemporaryFolder folder;
  const auto text = run_on_small_disk(folder.path(), 1 << 20, [&] {
    const PackedWriterPlan plan = make_plan(folder.path() + "/out");
    std::string refusal;
    size_t n_done = 0;
    {
      PackedWriter writer(plan, false);
      write_tensor(&writer, 0);
      const auto filler = FileWriter::open(folder.path() + "/filler");
      filler->write_at(0, std::vector<uint8_t>(free_disk_bytes(folder.path()) - 40'000));
      refusal = error_text([&] { write_rest(&writer); });
      for (size_t i = 0; i < plan.tensors.size(); ++i) n_done += writer.is_done(i) ? 1 : 0;
    }
    const std::string again = error_text([&] { PackedWriter(plan, true); });
    remove_file(folder.path() + "/filler");
    PackedWriter writer(plan, true);
    write_rest(&writer);
    writer.publish(nullptr);
    const bool is_there = directory_exists(plan.destination);
    return std::to_string(n_done) + (is_there ? " published " : " absent ") + refusal + again;
  });
  if (!text) {
    WARN("skipped: this system lets a test mount nothing");
    return;
  }
  INFO(*text);
  CHECK(text->find("2 published ") == 0);
  CHECK(text->find("the disk is full") != std::string::npos);
  CHECK(text->find("the disk is too small") != std::string::npos);
}

TEST_CASE("a limit on the size of files is an error and no signal") {
  const TemporaryFolder folder;
  const int status = run_in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20'000, 20'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string text =
        error_text([&] { PackedWriter(make_plan(folder.path() + "/out"), false); });
    _exit(text.find("larger files") != std::string::npos ? 9 : 1);
  });
  CHECK(WEXITSTATUS(status) == 9);
}

TEST_CASE("a parent that is no folder, or cannot be written to, is an error with the path") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  expect_failure(StatusCode::kIo, {file}, [&] { PackedWriter(make_plan(file + "/out"), false); });
  if (geteuid() == 0) return;  // root may write everywhere
  std::filesystem::permissions(
      folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  expect_failure(StatusCode::kIo, {"out.partial", "ermission"},
                 [&] { PackedWriter(make_plan(folder.path() + "/out"), false); });
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Packed snapshots as they come out: whole, and the same whatever interrupted the writing.

#include "lib/convert/packed_writer.h"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <numeric>

#include "lib/base/file.h"
#include "lib/convert/partial_folder.h"
#include "lib/snapshot/tensor_index.h"
#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Files = std::map<std::string, std::string>;

// What an undisturbed run writes.
Files write_undisturbed() {
  const TemporaryFolder folder;
  PackedWriter writer(make_plan(folder.path() + "/out"), false);
  write_rest(&writer);
  writer.publish(nullptr);
  return read_folder(folder.path() + "/out");
}

// Goes on with what a disturbed run left behind.
Files finish(const std::string &destination) {
  PackedWriter writer(make_plan(destination), true);
  write_rest(&writer);
  writer.publish(nullptr);
  return read_folder(destination);
}

// A plan whose finished tensors are recorded one by one.
PackedWriterPlan eager_plan(const std::string &destination) {
  PackedWriterPlan plan = make_plan(destination);
  plan.max_unrecorded_bytes = 0;
  return plan;
}

size_t count_done(const PackedWriter &writer) {
  size_t n = 0;
  for (size_t i = 0; i < writer.plan().tensors.size(); ++i) n += writer.is_done(i) ? 1 : 0;
  return n;
}

// A child writes four tensors and half of a fifth and is gone.
void write_half_in_child(const PackedWriterPlan &plan) {
  const int status = run_in_child([&] {
    PackedWriter writer(plan, false);
    for (const size_t tensor : {5, 0, 10, 8}) write_tensor(&writer, tensor);
    const std::vector<uint8_t> bytes = content_of(plan.tensors[6]);
    writer.append(6, std::span(bytes).first(bytes.size() / 2));
    _exit(7);
  });
  REQUIRE(WEXITSTATUS(status) == 7);
}

std::string journal_of(const std::string &destination) {
  return partial_directory(destination) + "/conversion.journal";
}

}  // namespace

TEST_CASE("a written snapshot opens and holds every tensor and file as it was given") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  const PackedWriterPlan plan = make_plan(path);
  PackedWriter writer(plan, false);
  std::vector<size_t> order(plan.tensors.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  size_t piece = 1000;
  for (const size_t tensor : order) write_tensor(&writer, tensor, piece += 3517);
  CHECK(writer.done_bytes() == writer.total_bytes());
  writer.publish(nullptr);
  const TensorIndex index = TensorIndex::open(path);
  CHECK(index.size() == plan.tensors.size());
  CHECK(index.files().size() == 3);
  REQUIRE(index.is_packed());
  for (const OutputTensor &tensor : plan.tensors) {
    const TensorInfo *info = index.find(tensor.name);
    REQUIRE(info != nullptr);
    CHECK(info->shape == tensor.shape);
    std::vector<uint8_t> bytes(info->bytes);
    REQUIRE(index.read(*info, bytes.data()).is_ok());
    CHECK(bytes == content_of(tensor));
    const PackedLayout *layout = index.packed_layout(tensor.name);
    CHECK((layout != nullptr) == tensor.layout.has_value());
    if (layout != nullptr) CHECK(*layout == *tensor.layout);
  }
  const Files files = read_folder(path);
  CHECK(files.size() == 3 + plan.files.size());
  for (const auto &[name, content] : plan.files) {
    CHECK(files.at(name) == std::string(content.begin(), content.end()));
  }
  CHECK_FALSE(is_named(partial_directory(path)));
}

TEST_CASE("the order of writing and the size of pieces leave no trace in the files") {
  const TemporaryFolder folder;
  PackedWriter writer(make_plan(folder.path() + "/out"), false);
  for (size_t i = writer.plan().tensors.size(); i-- > 0;) write_tensor(&writer, i, 333);
  writer.publish(nullptr);
  CHECK(read_folder(folder.path() + "/out") == write_undisturbed());
}

TEST_CASE("until it is published nothing can be taken for a snapshot") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  PackedWriter writer(make_plan(path), false);
  write_rest(&writer);
  CHECK_FALSE(is_named(path));
  expect_failure(StatusCode::kFormat, {"model-0000"},
                 [&] { TensorIndex::open(partial_directory(path)); });
}

TEST_CASE("a killed writer is gone on with, and the files are those of an undisturbed run") {
  const Files undisturbed = write_undisturbed();
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  write_half_in_child(eager_plan(path));
  {
    PackedWriter writer(make_plan(path), true);
    CHECK(count_done(writer) == 4);
    for (const size_t tensor : {5, 0, 10, 8}) CHECK(writer.is_done(tensor));
    CHECK(writer.done_bytes() == content_of(writer.plan().tensors[5]).size() * 2 +
                                     writer.plan().tensors[10].bytes +
                                     writer.plan().tensors[8].bytes);
  }
  CHECK(finish(path) == undisturbed);
}

TEST_CASE("what a killed writer had not recorded is written again") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  write_half_in_child(make_plan(path));
  CHECK(finish(path) == write_undisturbed());
}

TEST_CASE("finished tensors are recorded once enough bytes of them wait") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  PackedWriterPlan plan = make_plan(path);
  plan.max_unrecorded_bytes = 2 * plan.tensors[0].bytes;
  run_in_child([&] {
    PackedWriter writer(plan, false);
    for (size_t i = 0; i < 3; ++i) write_tensor(&writer, i);
    _exit(0);
  });
  PackedWriter writer(make_plan(path), true);
  CHECK(writer.is_done(0));
  CHECK(writer.is_done(1));
}

TEST_CASE("a writer that ends early records what is finished") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  {
    PackedWriter writer(make_plan(path), false);
    write_tensor(&writer, 9);
    write_tensor(&writer, 3);
    writer.append(4, std::vector<uint8_t>(100));
    CHECK(writer.done_bytes() ==
          writer.plan().tensors[9].bytes + writer.plan().tensors[3].bytes + 100);
  }
  PackedWriter writer(make_plan(path), true);
  CHECK(count_done(writer) == 2);
  CHECK(writer.is_done(9));
  CHECK(writer.is_done(3));
}

TEST_CASE("a journal that is cut anywhere leads to the same files") {
  const Files undisturbed = write_undisturbed();
  for (const size_t cut : {size_t{1}, size_t{30}, size_t{100}, size_t{250}}) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/out";
    write_half_in_child(eager_plan(path));
    const std::string journal = journal_of(path);
    REQUIRE(truncate(journal.c_str(),
                     static_cast<off_t>(
                         read_folder(partial_directory(path)).at("conversion.journal").size() -
                         cut)) == 0);
    CHECK(finish(path) == undisturbed);
  }
}

TEST_CASE("a writer that is killed while reading back is gone on with") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  run_in_child([&] {
    PackedWriter writer(make_plan(path), false);
    write_rest(&writer);
    writer.publish([&](uint64_t done, uint64_t total) -> bool {
      if (done > total / 2) _exit(0);
      return true;
    });
  });
  {
    const PackedWriter writer(make_plan(path), true);
    CHECK(count_done(writer) == writer.plan().tensors.size());
  }
  CHECK(finish(path) == write_undisturbed());
}

TEST_CASE("a folder whose journal is gone is written anew on request") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  write_half_in_child(eager_plan(path));
  REQUIRE(unlink(journal_of(path).c_str()) == 0);
  CHECK(finish(path) == write_undisturbed());
}

TEST_CASE("reading back reports every byte and can be stopped") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/out";
  {
    PackedWriter writer(make_plan(path), false);
    write_rest(&writer);
    size_t n_calls = 0;
    expect_failure(StatusCode::kCancelled, {"out.partial"},
                   [&] { writer.publish([&](uint64_t, uint64_t) { return ++n_calls < 3; }); });
    CHECK(n_calls == 3);
  }
  CHECK_FALSE(is_named(path));
  PackedWriter writer(make_plan(path), true);
  REQUIRE(count_done(writer) == writer.plan().tensors.size());
  uint64_t last = 0;
  writer.publish([&](uint64_t done, uint64_t total) {
    CHECK(done > last);
    CHECK(total == writer.total_bytes());
    last = done;
    return true;
  });
  CHECK(last == writer.total_bytes());
  CHECK(read_folder(path) == write_undisturbed());
}

TEST_CASE("a snapshot without tensors is one file") {
  const TemporaryFolder folder;
  PackedWriterPlan plan = make_plan(folder.path() + "/out");
  plan.tensors.clear();
  PackedWriter writer(plan, false);
  writer.publish(nullptr);
  CHECK(read_folder(plan.destination).count("model-00001-of-00001.safetensors") == 1);
}

}  // namespace colibri::test

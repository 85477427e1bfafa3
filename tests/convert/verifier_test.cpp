// SPDX-License-Identifier: Apache-2.0
//
// Verification: a sound snapshot passes, and every kind of damage is named.

#include "lib/convert/verifier.h"

#include <sys/stat.h>
#include <unistd.h>

#include "lib/snapshot/tensor_index.h"
#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

struct Written {
  Written() {
    PackedWriter writer(make_plan(path), false);
    write_rest(&writer);
    total_bytes = writer.total_bytes();
    writer.publish(nullptr);
  }
  std::string file(const std::string &name) const { return path + "/" + name; }

  // Flips a bit of a tensor's byte.
  void damage(const std::string &tensor, uint64_t offset) const {
    const TensorIndex index = TensorIndex::open(path);
    const TensorInfo *info = index.find(tensor);
    REQUIRE(info != nullptr);
    flip_bit(file(index.file_of(*info)), info->offset + offset);
  }

  std::vector<std::string> damaged() const { return verify_snapshot(path, 2, nullptr).damaged; }

  TemporaryFolder folder;
  std::string path = folder.path() + "/out";
  uint64_t total_bytes = 0;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a sound snapshot passes, with any number of threads") {
  const Written written;
  for (const uint32_t n_threads : {1u, 2u, 7u}) {
    const VerifyReport report = verify_snapshot(written.path, n_threads, nullptr);
    CHECK(report.damaged.empty());
    CHECK(report.n_tensors == 13);
    CHECK(report.n_files == 2);
    CHECK(report.bytes == written.total_bytes + 70'003);
  }
}

TEST_CASE("a flipped bit anywhere in a tensor names the tensor") {
  for (const uint64_t offset : {uint64_t{0}, uint64_t{12'345}, uint64_t{24'000}}) {
    const Written written;
    written.damage("layers.1.experts.3", offset);
    CHECK(written.damaged() == Names{"layers.1.experts.3"});
  }
  const Written written;
  written.damage("norm", 639);
  written.damage("layers.0.o_proj", 1);
  CHECK(written.damaged() == Names{"layers.0.o_proj", "norm"});
}

TEST_CASE("a side file that changed, was cut, grew or is absent is named") {
  const Written written;
  flip_bit(written.file("config.json"), 1);
  CHECK(written.damaged() == Names{"config.json"});
  REQUIRE(truncate(written.file("tokenizer.json").c_str(), 69'999) == 0);
  CHECK(written.damaged() == Names{"config.json", "tokenizer.json"});
  flip_bit(written.file("config.json"), 1);
  REQUIRE(truncate(written.file("tokenizer.json").c_str(), 70'001) == 0);
  CHECK(written.damaged() == Names{"tokenizer.json"});
  REQUIRE(unlink(written.file("tokenizer.json").c_str()) == 0);
  const VerifyReport report = verify_snapshot(written.path, 1, nullptr);
  CHECK(report.damaged == Names{"tokenizer.json"});
  CHECK(report.n_files == 2);
  REQUIRE(mkfifo(written.file("tokenizer.json").c_str(), 0600) == 0);
  CHECK(written.damaged() == Names{"tokenizer.json"});
}

TEST_CASE("a shard that was cut or is absent is an error that names it") {
  const Written written;
  const std::string shard = "model-00002-of-00003.safetensors";
  struct stat facts;
  REQUIRE(stat(written.file(shard).c_str(), &facts) == 0);
  REQUIRE(truncate(written.file(shard).c_str(), facts.st_size - 1) == 0);
  expect_failure(StatusCode::kFormat, {shard}, [&] { verify_snapshot(written.path, 1, nullptr); });
  REQUIRE(unlink(written.file(shard).c_str()) == 0);
  expect_failure(StatusCode::kIncomplete, {"2"},
                 [&] { verify_snapshot(written.path, 1, nullptr); });
}

TEST_CASE("a snapshot without checksums cannot be verified") {
  const TemporaryFolder folder;
  const std::string header = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  folder.write("model.safetensors", std::string(1, static_cast<char>(header.size())) +
                                        std::string(7, '\0') + header + "x");
  expect_failure(StatusCode::kUnsupported, {folder.path(), "checksums"},
                 [&] { verify_snapshot(folder.path(), 1, nullptr); });
  expect_failure(StatusCode::kNotFound, {"absent"},
                 [&] { verify_snapshot(folder.path() + "/absent", 1, nullptr); });
}

TEST_CASE("progress ends at the total, also with damage, and can stop the verification") {
  const Written written;
  written.damage("embed", 0);
  uint64_t last = 0;
  verify_snapshot(written.path, 2, [&](uint64_t done, uint64_t total) {
    CHECK(done >= last);
    CHECK(total == written.total_bytes + 70'003);
    last = done;
    return true;
  });
  CHECK(last == written.total_bytes + 70'003);
  expect_failure(StatusCode::kCancelled, {"stopped"}, [&] {
    verify_snapshot(written.path, 2, [](uint64_t, uint64_t) { return false; });
  });
}

TEST_CASE("a tensor larger than one round is verified over several") {
  const TemporaryFolder folder;
  PackedWriterPlan plan = make_plan(folder.path() + "/out");
  plan.tensors = {plain_tensor("large", "F32", {35, 1000, 1000}),
                  plain_tensor("small", "F32", {3})};
  plan.max_shard_bytes = 0;
  PackedWriter writer(plan, false);
  const std::vector<uint8_t> mebibytes(10'000'000, 5);
  for (int i = 0; i < 14; ++i) writer.append(0, mebibytes);
  writer.finish_tensor(0);
  write_rest(&writer);
  writer.publish(nullptr);
  size_t n_rounds = 0;
  const auto count = [&](uint64_t, uint64_t) { return ++n_rounds > 0; };
  CHECK(verify_snapshot(plan.destination, 2, count).damaged.empty());
  CHECK(n_rounds >= 3);
  flip_bit(plan.destination + "/model-00001-of-00001.safetensors", 4096 + 139'999'999);
  CHECK(verify_snapshot(plan.destination, 2, nullptr).damaged == Names{"large"});
}

}  // namespace colibri::test

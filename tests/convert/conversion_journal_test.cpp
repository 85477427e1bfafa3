// SPDX-License-Identifier: Apache-2.0
//
// The journal: what was recorded is there after any interruption, and nothing else is.

#include "lib/convert/conversion_journal.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/base/temporary_folder.h"
#include "tests/convert/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

constexpr size_t kTensors = 5;

ConversionBinding make_binding() {
  return {0x11, {"int4", "int8", "keep", "keep", 64, "search"}, 0x22, 0x33};
}

std::string content_at(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<std::optional<uint64_t>> checksums_at(const std::string &path) {
  return ConversionJournal(path, make_binding(), kTensors).checksums();
}

// A journal with tensors 3, 0 and 4 done.
std::string write_journal(const TemporaryFolder &folder) {
  const std::string path = folder.path() + "/journal";
  ConversionJournal journal(path, make_binding(), kTensors);
  journal.record(std::vector<FinishedTensor>{{3, 0x333}, {0, UINT64_MAX}});
  journal.record(std::vector<FinishedTensor>{{4, 0}});
  return path;
}

void expect_refused(ConversionBinding binding, std::initializer_list<std::string_view> parts) {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::string before = content_at(path);
  expect_failure(StatusCode::kMismatch, {"give the same again", "remove the folder", "colibri_"},
                 [&] { ConversionJournal(path, binding, kTensors); });
  expect_failure(StatusCode::kMismatch, parts, [&] { ConversionJournal(path, binding, kTensors); });
  CHECK(content_at(path) == before);
}

}  // namespace

TEST_CASE("what was recorded is read again") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::vector<std::optional<uint64_t>> wanted = {UINT64_MAX, std::nullopt, std::nullopt,
                                                       0x333, 0};
  CHECK(checksums_at(path) == wanted);
  ConversionJournal journal(path, make_binding(), kTensors);
  journal.record(std::vector<FinishedTensor>{{1, 0x111}});
  CHECK(journal.checksums()[1] == 0x111);
  CHECK(checksums_at(path)[1] == 0x111);
  CHECK(checksums_at(path)[3] == 0x333);
}

TEST_CASE("a tensor that is taken back is not done until it is recorded again") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  {
    ConversionJournal journal(path, make_binding(), kTensors);
    journal.retract(3);
    CHECK_FALSE(journal.checksums()[3]);
  }
  CHECK_FALSE(checksums_at(path)[3]);
  CHECK(checksums_at(path)[0] == UINT64_MAX);
  ConversionJournal(path, make_binding(), kTensors).record(std::vector<FinishedTensor>{{3, 7}});
  CHECK(checksums_at(path)[3] == 7);
}

TEST_CASE("a journal that is cut anywhere keeps its whole lines and can be written on") {
  const TemporaryFolder folder;
  const std::string whole = content_at(write_journal(folder));
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::string path = folder.write("cut", whole.substr(0, length));
    const size_t n_lines = static_cast<size_t>(
        std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length), '\n'));
    const auto found = checksums_at(path);
    CHECK(found[3].has_value() == (n_lines >= 2));
    CHECK(found[0].has_value() == (n_lines >= 3));
    CHECK_FALSE(found[4].has_value());
    ConversionJournal(path, make_binding(), kTensors).record(std::vector<FinishedTensor>{{1, 5}});
    CHECK(checksums_at(path)[1] == 5);
  }
}

TEST_CASE("nothing is believed from a damaged line on") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::string whole = content_at(path);
  const size_t second = whole.find('\n') + 1;
  for (size_t at = second; at < whole.size(); ++at) {
    folder.write("journal", whole);
    flip_bit(path, at);
    const auto found = checksums_at(path);
    const size_t third = whole.find('\n', second) + 1;
    CHECK(found[3].has_value() == (at >= third));
    CHECK_FALSE(found[4].has_value());
  }
}

TEST_CASE("a journal without a sound first line is begun anew") {
  const TemporaryFolder folder;
  const std::string path = write_journal(folder);
  const std::string whole = content_at(path);
  flip_bit(path, 3);
  for (const auto &sum : checksums_at(path)) CHECK_FALSE(sum.has_value());
  CHECK(content_at(path) == whole.substr(0, whole.find('\n') + 1));
  folder.write("journal", std::string(100'000, '\n'));
  for (const auto &sum : checksums_at(path)) CHECK_FALSE(sum.has_value());
}

TEST_CASE(
    "a journal of another conversion is refused and left alone, and the difference is named") {
  ConversionBinding binding = make_binding();
  binding.source_identity = 0x12;
  expect_refused(binding, {"source has changed", "0000000000000011 there, 0000000000000012 now"});
  binding = make_binding();
  binding.options.dense = "bf16";
  expect_refused(binding, {"with other options", "dense=int8 there, dense=bf16 now"});
  binding.options = make_binding().options;
  binding.options.group = 128;
  expect_refused(binding, {"group=64 there, group=128 now"});
  binding = make_binding();
  binding.tensors_hash = 1;
  expect_refused(binding, {"another list of tensors"});
  binding = make_binding();
  binding.files_hash = 1;
  expect_refused(binding, {"config.json"});
}

}  // namespace colibri::test

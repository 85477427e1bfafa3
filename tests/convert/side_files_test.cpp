// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/side_files.h"

#include <filesystem>
#include <fstream>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

std::vector<std::string> names_in(const TempFolder &folder) {
  std::vector<std::string> names;
  for (const auto &file : read_side_files(folder.path())) names.push_back(file.first);
  return names;
}

}  // namespace

TEST_CASE("everything but weights, their lists, hidden files and folders is a side file") {
  const TempFolder folder;
  for (const char *name :
       {"tokenizer.json", "config.json", "LICENSE", "chat_template.jinja", "notes with space.md",
        "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "x.gguf",
        ".gitattributes", ".coli_usage"}) {
    folder.write(name, name);
  }
  folder.write(
      "bad\xff"
      "name.txt",
      "x");
  std::filesystem::create_directory(folder.file("figures"));
  std::filesystem::create_symlink(folder.file("LICENSE"), folder.file("LICENSE.link"));
  CHECK(names_in(folder) == std::vector<std::string>{"LICENSE", "LICENSE.link",
                                                     "chat_template.jinja", "config.json",
                                                     "notes with space.md", "tokenizer.json"});
  const auto files = read_side_files(folder.path());
  CHECK(std::string(files[1].second.begin(), files[1].second.end()) == "LICENSE");
}

TEST_CASE("a side file that is too large is refused by name, not left behind") {
  const TempFolder folder;
  folder.write("tokenizer.json", "");
  std::filesystem::resize_file(folder.file("tokenizer.json"), kMaxSideFileBytes + 1);
  expect_failure(StatusCode::kUnsupported, {"tokenizer.json", "67108865", "67108864"},
                 [&] { read_side_files(folder.path()); });
}

TEST_CASE("too many side files are refused") {
  const TempFolder folder;
  for (size_t i = 0; i < kMaxSideFiles; ++i) folder.write("n" + std::to_string(i), "");
  CHECK(read_side_files(folder.path()).size() == kMaxSideFiles);
  folder.write("one more", "");
  expect_failure(StatusCode::kUnsupported, {"more than 256"},
                 [&] { read_side_files(folder.path()); });
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// docs/models.md says what the library reads and what of it is tested. To write the tables anew:
// COLIBRI_WRITE_DOCS=1 test_golden "the tables of docs/models.md*".

#include "tests/golden/models_page.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/catch.h"

namespace {

constexpr const char *kBegin = "<!-- generated: families -->\n";
constexpr const char *kEnd = "<!-- end -->\n";

std::string page_path() {
  return std::string(COLIBRI_TEST_DATA) + "/../../../docs/models.md";
}

std::string read_text(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the example of docs/adding-a-family.md is the code of the library") {
  const std::string root = std::string(COLIBRI_TEST_DATA) + "/../../..";
  const std::string page = read_text(root + "/docs/adding-a-family.md");
  const std::string code = read_text(root + "/lib/snapshot/families_grouped.cpp");
  constexpr const char *kOpening = "```cpp\n";
  size_t n_blocks = 0;
  for (size_t at = page.find(kOpening); at != std::string::npos; at = page.find(kOpening, at)) {
    at += std::string(kOpening).size();
    const std::string block = page.substr(at, page.find("```", at) - at);
    INFO(block);
    CHECK(code.find(block) != std::string::npos);
    ++n_blocks;
    at += block.size();
  }
  CHECK(n_blocks == 2);
}

TEST_CASE("the tables of docs/models.md are what the family table and the golden cases say") {
  std::string text = read_text(page_path());
  const size_t begin = text.find(kBegin);
  const size_t end = text.find(kEnd);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const size_t from = begin + std::string(kBegin).size();
  const std::string wanted = colibri::test::models_page_tables();
  if (std::getenv("COLIBRI_WRITE_DOCS") != nullptr) {
    std::ofstream(page_path()) << text.replace(from, end - from, wanted);
    return;
  }
  CHECK(text.substr(from, end - from) == wanted);
}

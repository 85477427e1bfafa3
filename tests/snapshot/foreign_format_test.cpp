// SPDX-License-Identifier: Apache-2.0
//
// Recognition of other files by their first bytes.

#include "lib/snapshot/foreign_format.h"

#include <string>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

std::string recognise(std::string_view bytes) {
  const char *name = recognise_foreign_format(*memory_reader("f", bytes));
  return name != nullptr ? name : "";
}

}  // namespace

TEST_CASE("recognises formats by magic and says nothing about others") {
  CHECK(recognise("GGUF\x03") == "a GGUF file");
  CHECK(recognise("\xEF\xBB\xBF <!DocType HTML>") == "an HTML page");
  CHECK(recognise("\x93NUMPY\x01") == "a NumPy array");
  CHECK(recognise(std::string_view("\x80\x04\x95\x00", 4)) ==
        "a Python pickle (PyTorch checkpoint)");
  CHECK(recognise("").empty());
  CHECK(recognise("GGU").empty());
  CHECK(recognise("\x80").empty());
  CHECK(recognise("{\"json\":1}").empty());
  CHECK(recognise("   ").empty());
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Typed access to the keys of a config; the keys of the family are in model_config_test.cpp.

#include "lib/snapshot/config_reader.h"

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("null counts as absent") {
  const JsonDocument document = JsonDocument::parse(R"({"a":null,"b":3})", "c.json");
  const ConfigReader reader(document.root(), "c.json");
  CHECK_FALSE(reader.has("a"));
  CHECK(reader.has("b"));
  CHECK(reader.read_count("a", {1, 9}, 5) == 5);
  CHECK(reader.read_count("b", {1, 9}, 5) == 3);
  CHECK(reader.read_flag("a", true));
  CHECK_FALSE(reader.read_text("a").has_value());
  CHECK(reader.read_positive("b", 1.0f) == 3.0f);
}

TEST_CASE("a refusal shows file, key, value and rule, in bounded length") {
  const JsonDocument document =
      JsonDocument::parse(R"({"a":{"x":[1,2]},"b":")" + std::string(500, 'y') +
                              R"(","c":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]})",
                          "c.json");
  const ConfigReader reader(document.root(), "c.json");
  expect_failure(StatusCode::kFormat, {"c.json", "a is {\"x\":[1,2]}", "1..9"}, [&] {
    reader.require_count("a", {1, 9});
  });
  expect_failure(StatusCode::kFormat, {"b is \"yyy", "a number above 0"},
                 [&] { reader.require_positive("b"); });
  expect_failure(StatusCode::kFormat, {"c is a long list"}, [&] { reader.read_flag("c", true); });
  expect_failure(StatusCode::kUnsupported, {"'z' only"},
                 [&] { reader.require_text_value("b", "z"); });
}

TEST_CASE("names of one number must agree, and the first is named if all are absent") {
  const JsonDocument document = JsonDocument::parse(R"({"y":3,"z":3.0,"w":4})", "c.json");
  const ConfigReader reader(document.root(), "c.json");
  CHECK(reader.require_count_alias({"x", "y", "z"}, {1, 9}) == 3);
  expect_failure(StatusCode::kFormat, {"w is 4", "y is 3"}, [&] {
    reader.require_count_alias({"y", "w"}, {1, 9});
  });
  expect_failure(StatusCode::kFormat, {"q is absent"}, [&] {
    reader.require_count_alias({"q", "r"}, {1, 9});
  });
}

}  // namespace colibri::test

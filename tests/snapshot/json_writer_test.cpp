// SPDX-License-Identifier: Apache-2.0
//
// The JSON writer: what it writes is valid and reads back as the same value.

#include <cmath>
#include <limits>

#include "lib/snapshot/json.h"
#include "tests/support/catch.h"

namespace colibri::test {

TEST_CASE("writes nested objects and lists with commas in the right places") {
  JsonWriter writer;
  writer.begin_object().key("a").begin_array().value(1).value(2u).null().end_array();
  writer.key("b").begin_object().end_object().key("c").value(true).key("d").value("x").end_object();
  CHECK(writer.text() == R"({"a":[1,2,null],"b":{},"c":true,"d":"x"})");
}

TEST_CASE("escapes quotes, backslashes and control characters") {
  JsonWriter writer;
  writer.value(std::string_view("\"\\\n\t\r\x01\0", 7));
  CHECK(writer.text() == "\"\\\"\\\\\\n\\t\\r\\u0001\\u0000\"");
}

TEST_CASE("keeps valid UTF-8 and replaces what is not") {
  const auto written = [](std::string_view text) {
    JsonWriter writer;
    writer.value(text);
    return writer.text();
  };
  CHECK(written("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
        "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"");
  CHECK(written("a\xFF"
                "b") ==
        "\"a\xEF\xBF\xBD"
        "b\"");
  for (const char *text : {"\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80"}) {
    CHECK_NOTHROW(JsonDocument::parse(written(text), "written"));
  }
}

TEST_CASE("floats are shortest and exact, and what is not finite becomes null") {
  JsonWriter writer;
  writer.begin_array().value(0.1).value(1e300).value(std::nan("")).value(INFINITY).value(-0.5);
  writer.value(std::numeric_limits<double>::denorm_min()).end_array();
  CHECK(writer.text() == "[0.1,1e+300,null,null,-0.5,5e-324]");
}

TEST_CASE("a parsed value is written back unchanged") {
  const std::string text =
      R"({"a":[1,-2,18446744073709551615,0.1,true,null,"x\n"],"o":{"k":{}},"e":[]})";
  JsonWriter writer;
  const JsonDocument document = JsonDocument::parse(text, "test");
  writer.value(document.root());
  CHECK(writer.text() == text);
}

}  // namespace colibri::test

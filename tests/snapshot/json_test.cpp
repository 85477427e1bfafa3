// SPDX-License-Identifier: Apache-2.0
//
// The JSON reader against well-formed, odd and hostile text.

#include "lib/snapshot/json.h"

#include <chrono>
#include <clocale>
#include <iostream>
#include <memory>

#include "tests/snapshot/fixture.h"
#include "tests/support/catch.h"

namespace colibri::test {
namespace {

JsonDocument parse(std::string_view text) {
  return JsonDocument::parse(text, "test.json");
}

void expect_refused(std::string_view text, std::initializer_list<std::string_view> parts) {
  INFO("text: " << text.substr(0, 80));
  expect_failure(StatusCode::kFormat, parts, [&] { parse(text); });
}

std::string nested_arrays(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

// A comma locale of this system, or nullptr.
const char *enter_comma_locale() {
  for (const char *name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE"}) {
    if (std::setlocale(LC_ALL, name) != nullptr && *std::localeconv()->decimal_point == ',') {
      return name;
    }
  }
  std::setlocale(LC_ALL, "C");
  return nullptr;
}

}  // namespace

TEST_CASE("reads every kind of value") {
  const JsonDocument document = parse(
      R"({"n":null,"t":true,"f":false,"i":-7,"u":18446744073709551615,"d":0.5,"s":"x","a":[1,[2]],"o":{}})");
  const JsonValue root = document.root();
  REQUIRE(root.is_object());
  CHECK(root.size() == 9);
  CHECK(root.has("n"));
  CHECK(root.get("n").is_null());
  CHECK(root.get("t").as_boolean() == true);
  CHECK(root.get("f").as_boolean() == false);
  CHECK(root.get("i").as_integer() == -7);
  CHECK_FALSE(root.get("i").as_unsigned().has_value());
  CHECK(root.get("u").as_unsigned() == UINT64_MAX);
  CHECK_FALSE(root.get("u").as_integer().has_value());
  CHECK(root.get("d").as_number() == 0.5);
  CHECK(root.get("s").as_string() == "x");
  CHECK(root.get("a").at(1).at(0).as_integer() == 2);
  CHECK(root.get("o").is_object());
  CHECK(root.key_at(6) == "s");
  CHECK(root.at(6).as_string() == "x");
}

TEST_CASE("another kind, an absent key and an index too large give nothing, not a fault") {
  const JsonDocument document = parse(R"({"s":"x","a":[1]})");
  const JsonValue root = document.root();
  CHECK_FALSE(root.get("s").as_number().has_value());
  CHECK_FALSE(root.get("a").as_string().has_value());
  CHECK_FALSE(root.has("absent"));
  CHECK(root.get("absent").is_null());
  CHECK(root.get("absent").get("deeper").at(3).is_null());
  CHECK(root.get("a").at(1).is_null());
  CHECK(root.key_at(2).empty());
  CHECK(JsonValue().size() == 0);
  CHECK(JsonValue().kind() == JsonValue::Kind::kNull);
}

TEST_CASE("an integer may be written as a float and the other way round") {
  const JsonDocument document =
      parse("[8000000, 8e6, 8000000.0, 0.25, 1e300, -9223372036854775808.0]");
  const JsonValue root = document.root();
  for (size_t i = 0; i < 3; ++i) {
    CHECK(root.at(i).as_integer() == 8000000);
    CHECK(root.at(i).as_number() == 8e6);
  }
  CHECK_FALSE(root.at(3).as_integer().has_value());
  CHECK_FALSE(root.at(4).as_integer().has_value());
  CHECK(root.at(5).as_integer() == INT64_MIN);
}

TEST_CASE("decodes escapes, surrogate pairs and plain UTF-8") {
  const JsonDocument document =
      parse("[\"a\\n\\\"\\\\\\/\\u00e9\\ud83d\\ude00\", \"\xC3\xA9\", \"\\u0000\"]");
  CHECK(document.root().at(0).as_string() == "a\n\"\\/\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(document.root().at(1).as_string() == "\xC3\xA9");
  CHECK(document.root().at(2).as_string() == std::string_view("\0", 1));
}

TEST_CASE("a value stays valid when its document is moved") {
  JsonDocument first = parse(R"({"key":"value"})");
  const JsonValue value = first.root().get("key");
  const JsonDocument second = std::move(first);
  CHECK(value.as_string() == "value");
  CHECK(second.name() == "test.json");
}

TEST_CASE("syntax errors are refused with file and byte [X-19]") {
  for (const char *text :
       {"",    " ",        "{",    "[1,]",  "{\"a\":}", "nul",     "01",          "1.",
        "+1",  "\"a",      "'a'",  "{a:1}", "[1 2]",    "\"\\x\"", "\"\\ud800\"", "\"\t\"",
        "NaN", "Infinity", "[1]]", "{}x",   "{} {}",    "/**/{}"}) {
    expect_refused(text, {"test.json", "byte"});
  }
  expect_refused("[1, 2, x]", {"byte 8"});
}

TEST_CASE("a zero byte behind the text is not the end of it") {
  expect_refused(std::string_view("{}\0{}", 5), {"byte 3", "zero byte"});
  expect_refused(std::string_view("{}\0", 3), {"zero byte"});
}

TEST_CASE("invalid UTF-8 is refused") {
  expect_refused("\"\xFF\"", {"byte"});
  expect_refused("\"\xC0\x80\"", {"byte"});
  expect_refused("\"\xED\xA0\x80\"", {"byte"});
  expect_refused("\"\xE2\x82\"", {"byte"});
}

TEST_CASE("nesting is read up to the limit and refused one level deeper [X-18]") {
  CHECK(parse(nested_arrays(kMaxJsonDepth)).root().is_array());
  expect_refused(nested_arrays(kMaxJsonDepth + 1), {"64 levels", "byte 65"});
  expect_refused(std::string(1100, '['), {"64 levels"});
  expect_refused(std::string(3000000, '{'), {"byte"});
}

TEST_CASE("a duplicate key is reported as such, with its place [L-10]") {
  expect_refused(R"({"a":1,"b":2,"a":3})", {"\"a\"", "twice", "byte 16"});
  expect_refused(R"({"x":{"a":1,"\u0061":3}})", {"\"a\"", "twice"});
  CHECK(parse(R"([{"a":1},{"a":2}])").root().size() == 2);
}

TEST_CASE("a duplicate among 150,000 keys is found, and every key can be looked up") {
  std::string text = "{";
  for (int i = 0; i < 150000; ++i)
    text += "\"key" + std::to_string(i) + "\":" + std::to_string(i) + ",";
  const std::string sound = text + "\"last\":1}";
  const JsonDocument document = parse(sound);
  const JsonValue root = document.root();
  bool all_found = true;
  for (int i = 0; i < 150000; ++i) {
    all_found = all_found && root.get("key" + std::to_string(i)).as_integer() == i;
  }
  CHECK(all_found);
  CHECK_FALSE(root.has("key150000"));
  expect_refused(text + "\"key77777\":1}", {"\"key77777\"", "twice"});
}

TEST_CASE("the parser stays inside a buffer without a terminator [X-02]") {
  // The text ends with the allocation, so that a sanitizer sees a read behind it.
  for (const std::string_view text :
       {"{a\":1}", "{\"a", "[1", "12", "\"\\u12", "tru", "{\"a\":1,"}) {
    const std::unique_ptr<char[]> bytes(new char[text.size()]);
    std::copy(text.begin(), text.end(), bytes.get());
    const std::string_view exact(bytes.get(), text.size());
    if (text == "12") {
      CHECK(parse(exact).root().as_integer() == 12);
    } else {
      expect_refused(exact, {"byte"});
    }
  }
}

TEST_CASE("a number outside the range of a double is refused") {
  expect_refused("[1e999]", {"1e999"});
  expect_refused("[-1e999]", {"byte"});
}

TEST_CASE("numbers do not follow the host's locale [L-25]") {
  const char *locale = enter_comma_locale();
  if (locale == nullptr) {
    WARN("skipped: this system has no locale with a decimal comma");
    return;
  }
  const JsonDocument document = parse("[0.5, 1e-5, 2.5e3]");
  JsonWriter writer;
  writer.value(0.5);
  std::setlocale(LC_ALL, "C");
  CHECK(document.root().at(0).as_number() == 0.5);
  CHECK(document.root().at(1).as_number() == 1e-5);
  CHECK(document.root().at(2).as_number() == 2500.0);
  CHECK(writer.text() == "0.5");
}

TEST_CASE("a vocabulary of 150,000 entries and as many merges is read", "[.][time]") {
  std::string text = "{\"vocab\":{";
  for (int i = 0; i < 150000; ++i) {
    text +=
        (i != 0 ? ",\n  \"" : "\n  \"") + std::to_string(i * 7919) + "word\": " + std::to_string(i);
  }
  text += "},\"merges\":[";
  for (int i = 0; i < 150000; ++i) {
    text += (i != 0 ? ",\n [\"" : "\n [\"") + std::to_string(i) + "\", \"ab\"]";
  }
  text += "]}";
  const auto begin = std::chrono::steady_clock::now();
  const JsonDocument document = parse(text);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - begin;
  CHECK(document.root().get("merges").at(149999).at(0).as_string() == "149999");
  std::cout << text.size() << " bytes of JSON in " << elapsed.count() << " ms\n";
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Status and Error carry code and text; names and default texts exist for every row of the table.

#include <set>
#include <string>

#include "lib/base/status.h"
#include "tests/support/catch.h"

using namespace colibri;

TEST_CASE("a fresh status is success with an empty message") {
  const Status status;
  REQUIRE(status.is_ok());
  REQUIRE(status.code() == StatusCode::kOk);
  REQUIRE(std::string(status.message()).empty());
}

TEST_CASE("a made status keeps its code and formatted text, and copies are equal") {
  const Status status = make_status(StatusCode::kIo, "'%s' at %d", "a.bin", 7);
  const Status copy = status;
  REQUIRE_FALSE(copy.is_ok());
  REQUIRE(copy.code() == StatusCode::kIo);
  REQUIRE(std::string(copy.message()) == "'a.bin' at 7");
}

TEST_CASE("a long status text is cut at 247 bytes between characters") {
  const std::string text = std::string(246, 'x') + "\xC3\xBC tail";
  const Status status = make_status(StatusCode::kFormat, "%s", text.c_str());
  REQUIRE(std::string(status.message()) == std::string(246, 'x'));
  const Status plain = make_status(StatusCode::kFormat, "%s", std::string(500, 'y').c_str());
  REQUIRE(std::string(plain.message()) == std::string(Status::kTextBytes - 1, 'y'));
}

TEST_CASE("throw_error throws Error with code and text") {
  try {
    throw_error(StatusCode::kBudget, "needs %d bytes", 12);
  } catch (const Error &error) {
    REQUIRE(error.status().code() == StatusCode::kBudget);
    REQUIRE(std::string(error.what()) == "needs 12 bytes");
    return;
  }
  FAIL("nothing was thrown");
}

TEST_CASE("throw_if_failed lets success pass and throws failures") {
  REQUIRE_NOTHROW(throw_if_failed(Status()));
  REQUIRE_THROWS_AS(throw_if_failed(make_status(StatusCode::kState, "x")), Error);
}

TEST_CASE("every code of the table has its own public name and text") {
  std::set<std::string> names;
  std::set<std::string> texts;
  std::set<int> numbers;
  size_t n_rows = 0;
#define COLIBRI_STATUS_ROW(name, public_name, number, text)       \
  REQUIRE(static_cast<int>(StatusCode::k##name) == number);       \
  REQUIRE(std::string(status_code_name(number)) == #public_name); \
  REQUIRE(std::string(status_code_text(number)) == text);         \
  names.insert(status_code_name(number));                         \
  texts.insert(status_code_text(number));                         \
  numbers.insert(number);                                         \
  ++n_rows;
#include "lib/base/status_table.inc"
#undef COLIBRI_STATUS_ROW
  REQUIRE(n_rows >= 18);
  REQUIRE(names.size() == n_rows);
  REQUIRE(texts.size() == n_rows);
  REQUIRE(numbers.size() == n_rows);
  REQUIRE(names.count("COLIBRI_E_UNKNOWN") == 0);
  REQUIRE(std::string(status_code_name(0)) == "COLIBRI_OK");
  REQUIRE(std::string(status_code_name(-40)) == "COLIBRI_E_IO");
  REQUIRE(std::string(status_code_name(-3)) == "COLIBRI_E_NOT_FOUND");
}

TEST_CASE("unknown numbers have a name and a text too") {
  for (const int32_t number : {1, -5, -1000, INT32_MIN, INT32_MAX}) {
    REQUIRE(std::string(status_code_name(number)) == "COLIBRI_E_UNKNOWN");
    REQUIRE_FALSE(std::string(status_code_text(number)).empty());
  }
}

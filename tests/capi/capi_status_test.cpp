// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/status.h: names, texts, and the error struct that every call can fill.

#include <climits>
#include <cstring>
#include <set>
#include <string>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

namespace {

constexpr colibri_status kCodes[] = {
    COLIBRI_OK,           COLIBRI_E_ARGUMENT,   COLIBRI_E_UNSUPPORTED, COLIBRI_E_NOT_FOUND,
    COLIBRI_E_HANDLE,     COLIBRI_E_BUSY,       COLIBRI_E_STATE,       COLIBRI_E_CANCELLED,
    COLIBRI_E_MEMORY,     COLIBRI_E_BUDGET,     COLIBRI_E_CAPACITY,    COLIBRI_E_CONTEXT,
    COLIBRI_E_FORMAT,     COLIBRI_E_INCOMPLETE, COLIBRI_E_MISMATCH,    COLIBRI_E_IO,
    COLIBRI_E_NON_FINITE, COLIBRI_E_INTERNAL};

// A call that fails with COLIBRI_E_HANDLE.
colibri_status fail(colibri_error *error) {
  return colibri_batch_clear(nullptr, error);
}

}  // namespace

TEST_CASE("every status code has its own name and text") {
  std::set<std::string> names;
  std::set<std::string> texts;
  for (const colibri_status code : kCodes) {
    names.insert(colibri_status_name(code));
    texts.insert(colibri_status_text(code));
  }
  CHECK(names.size() == std::size(kCodes));
  CHECK(texts.size() == std::size(kCodes));
  CHECK(colibri_status_name(COLIBRI_OK) == std::string("COLIBRI_OK"));
  CHECK(colibri_status_name(COLIBRI_E_IO) == std::string("COLIBRI_E_IO"));
  CHECK(colibri_status_name(COLIBRI_E_NON_FINITE) == std::string("COLIBRI_E_NON_FINITE"));
}

TEST_CASE("a number that is no status code has a name and a text, too") {
  for (const colibri_status code : {1, -5, -9999, INT_MIN, INT_MAX}) {
    CHECK(colibri_status_name(code) == std::string("COLIBRI_E_UNKNOWN"));
    CHECK(std::strlen(colibri_status_text(code)) > 0);
  }
}

TEST_CASE("a failure fills the error struct and a success empties it") {
  colibri_error error = COLIBRI_ERROR_INIT;
  CHECK(fail(&error) == COLIBRI_E_HANDLE);
  CHECK(error.code == COLIBRI_E_HANDLE);
  CHECK(error.message == std::string("batch is NULL"));
  CHECK(colibri_batch_destroy(nullptr, &error) == COLIBRI_OK);
  CHECK(error.code == COLIBRI_OK);
  CHECK(error.message == std::string());
}

TEST_CASE("an error struct with the size of no version stays untouched") {
  for (const uint32_t size : {0u, 4u, 255u, 4097u, UINT32_MAX}) {
    colibri_error error;
    std::memset(&error, 0x5a, sizeof(error));
    error.struct_size = size;
    CHECK(fail(&error) == COLIBRI_E_HANDLE);
    CHECK(error.struct_size == size);
    CHECK(error.code == 0x5a5a5a5a);
    CHECK(error.message[0] == 0x5a);
  }
}

TEST_CASE("an error struct of a later version is filled as far as it is known") {
  struct {
    colibri_error known;
    char later[32];
  } error{};
  std::memset(error.later, 0x5a, sizeof(error.later));
  error.known.struct_size = sizeof(error);
  CHECK(fail(&error.known) == COLIBRI_E_HANDLE);
  CHECK(error.known.code == COLIBRI_E_HANDLE);
  CHECK(error.later[0] == 0x5a);
}

TEST_CASE("no error struct is needed") {
  CHECK(fail(nullptr) == COLIBRI_E_HANDLE);
}

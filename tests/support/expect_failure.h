// SPDX-License-Identifier: Apache-2.0
//
// What a test says of an Error that must be thrown.

#pragma once

#include <functional>
#include <initializer_list>
#include <string_view>

#include "lib/base/status.h"
#include "tests/support/catch.h"

namespace colibri::test {

// Runs `body`, which must throw Error with this code; each of `parts` must occur in its message.
inline void expect_failure(StatusCode code, std::initializer_list<std::string_view> parts,
                           const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    INFO("message: " << error.what());
    CHECK(static_cast<int>(error.status().code()) == static_cast<int>(code));
    for (const std::string_view part : parts) {
      INFO("wanted: " << part);
      CHECK(std::string_view(error.what()).find(part) != std::string_view::npos);
    }
    return;
  }
  FAIL("nothing was refused");
}

}  // namespace colibri::test

// SPDX-License-Identifier: Apache-2.0
//
// Log lines reach the callback whole, filtered by level, and never without one.

#include <string>
#include <utility>
#include <vector>

#include "lib/base/log.h"
#include "tests/support/catch.h"

using colibri::Log;
using colibri::LogLevel;

namespace {

using Lines = std::vector<std::pair<int32_t, std::string>>;

void collect(void *user, int32_t level, const char *line) {
  static_cast<Lines *>(user)->emplace_back(level, line);
}

}  // namespace

TEST_CASE("a log without a callback does nothing") {
  const Log log;
  log.write(LogLevel::kError, "nobody reads %d", 1);
  const Log muted(nullptr, nullptr, LogLevel::kDebug);
  muted.write(LogLevel::kError, "nor this");
}

TEST_CASE("lines up to the most detailed level are passed on with their level") {
  Lines lines;
  const Log log(collect, &lines, LogLevel::kWarning);
  log.write(LogLevel::kError, "e %d", 1);
  log.write(LogLevel::kWarning, "w");
  log.write(LogLevel::kInfo, "i");
  log.write(LogLevel::kDebug, "d");
  REQUIRE(lines == Lines{{1, "e 1"}, {2, "w"}});
}

TEST_CASE("a long log line is cut at 1023 bytes and stays one line") {
  Lines lines;
  const Log log(collect, &lines, LogLevel::kDebug);
  log.write(LogLevel::kDebug, "%s", std::string(3000, 'z').c_str());
  log.write(LogLevel::kInfo, "two\nlines");
  REQUIRE(lines == Lines{{4, std::string(1023, 'z')}, {3, "two?lines"}});
}

// SPDX-License-Identifier: Apache-2.0
//
// Log lines to the host's callback, whole lines only; without a callback nothing happens. The
// library has no output of its own.

#pragma once

#include <cstdint>

namespace colibri {

enum class LogLevel : int32_t { kError = 1, kWarning = 2, kInfo = 3, kDebug = 4 };

// The callback may be called only from threads that are inside a call of the host into this
// library.
using LogCallback = void (*)(void *user, int32_t level, const char *line);

class Log {
 public:
  Log() noexcept = default;
  Log(LogCallback callback, void *user, LogLevel most_detailed) noexcept
      : callback_(callback), user_(user), most_detailed_(most_detailed) {}

  // printf-style, one line without line feed, cut at 1023 bytes.
  [[gnu::format(printf, 3, 4)]] void write(LogLevel level, const char *format, ...) const noexcept;

 private:
  LogCallback callback_ = nullptr;
  void *user_ = nullptr;
  LogLevel most_detailed_ = LogLevel::kInfo;
};

}  // namespace colibri

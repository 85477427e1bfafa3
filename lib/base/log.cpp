// SPDX-License-Identifier: Apache-2.0
//
// A line is built on the stack and handed over whole; nothing is kept and nothing is allocated.

#include "lib/base/log.h"

#include <cstdarg>

#include "lib/base/format_text.h"

namespace colibri {

void Log::write(LogLevel level, const char *format, ...) const noexcept {
  if (callback_ == nullptr || level > most_detailed_) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  format_text(line, sizeof(line), format, args);
  va_end(args);
  callback_(user_, static_cast<int32_t>(level), line);
}

}  // namespace colibri

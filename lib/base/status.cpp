// SPDX-License-Identifier: Apache-2.0
//
// Texts of Status and Error, and the two look-ups over status_table.inc.

#include "lib/base/status.h"

#include <cstdarg>

#include "lib/base/format_text.h"

namespace colibri {
namespace {

const char *public_name(StatusCode code) noexcept {
  switch (code) {
#define COLIBRI_STATUS_ROW(name, public_name, number, text) \
  case StatusCode::k##name:                                 \
    return #public_name;
#include "lib/base/status_table.inc"
#undef COLIBRI_STATUS_ROW
  }
  return "COLIBRI_E_UNKNOWN";
}

const char *default_text(StatusCode code) noexcept {
  switch (code) {
#define COLIBRI_STATUS_ROW(name, public_name, number, text) \
  case StatusCode::k##name:                                 \
    return text;
#include "lib/base/status_table.inc"
#undef COLIBRI_STATUS_ROW
  }
  return "a status code that this version does not know";
}

}  // namespace

Status make_status_v(StatusCode code, const char *format, __builtin_va_list args) noexcept {
  Status status;
  status.code_ = code;
  format_text(status.text_, sizeof(status.text_), format, args);
  return status;
}

Status make_status(StatusCode code, const char *format, ...) noexcept {
  va_list args;
  va_start(args, format);
  const Status status = make_status_v(code, format, args);
  va_end(args);
  return status;
}

void throw_error(StatusCode code, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const Status status = make_status_v(code, format, args);
  va_end(args);
  throw Error(status);
}

void throw_if_failed(const Status &status) {
  if (!status.is_ok()) throw Error(status);
}

const char *status_code_name(int32_t code) noexcept {
  return public_name(static_cast<StatusCode>(code));
}

const char *status_code_text(int32_t code) noexcept {
  return default_text(static_cast<StatusCode>(code));
}

}  // namespace colibri

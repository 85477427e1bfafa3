// SPDX-License-Identifier: Apache-2.0
//
// Texts of Status and Error, and the two look-ups over status_table.inc.

#include "lib/base/status.h"

#include <cstdarg>

#include "lib/base/format_text.h"

namespace colibri {
namespace {

// Public names are upper case with underscores and cannot be made from the table's CamelCase by the
// preprocessor, so they are listed by enumerator; -Wswitch reports a row that is forgotten.
const char *public_name(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::kOk:
      return "COLIBRI_OK";
    case StatusCode::kArgument:
      return "COLIBRI_E_ARGUMENT";
    case StatusCode::kUnsupported:
      return "COLIBRI_E_UNSUPPORTED";
    case StatusCode::kNotFound:
      return "COLIBRI_E_NOT_FOUND";
    case StatusCode::kHandle:
      return "COLIBRI_E_HANDLE";
    case StatusCode::kBusy:
      return "COLIBRI_E_BUSY";
    case StatusCode::kState:
      return "COLIBRI_E_STATE";
    case StatusCode::kCancelled:
      return "COLIBRI_E_CANCELLED";
    case StatusCode::kMemory:
      return "COLIBRI_E_MEMORY";
    case StatusCode::kBudget:
      return "COLIBRI_E_BUDGET";
    case StatusCode::kCapacity:
      return "COLIBRI_E_CAPACITY";
    case StatusCode::kContext:
      return "COLIBRI_E_CONTEXT";
    case StatusCode::kFormat:
      return "COLIBRI_E_FORMAT";
    case StatusCode::kIncomplete:
      return "COLIBRI_E_INCOMPLETE";
    case StatusCode::kMismatch:
      return "COLIBRI_E_MISMATCH";
    case StatusCode::kIo:
      return "COLIBRI_E_IO";
    case StatusCode::kNonFinite:
      return "COLIBRI_E_NON_FINITE";
    case StatusCode::kInternal:
      return "COLIBRI_E_INTERNAL";
  }
  return "COLIBRI_E_UNKNOWN";
}

const char *default_text(StatusCode code) noexcept {
  switch (code) {
#define COLIBRI_STATUS_ROW(name, number, text) \
  case StatusCode::k##name:                    \
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

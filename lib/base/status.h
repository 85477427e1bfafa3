// SPDX-License-Identifier: Apache-2.0
//
// Status: the outcome of an operation on the step path, with a text in place (no allocation).
// Error: the one exception type of the library, thrown off the step path (open, load, create).
// The numbers, names and default texts of all codes stand in status_table.inc; the public header
// include/colibri/status.h repeats the names and numbers for C, and a test compares the two.

#pragma once

#include <cstdint>
#include <exception>

namespace colibri {

enum class StatusCode : int32_t {
#define COLIBRI_STATUS_ROW(name, public_name, number, text) k##name = (number),
#include "lib/base/status_table.inc"
#undef COLIBRI_STATUS_ROW
};

// Outcome of one operation. Copying it never allocates; message() is empty when is_ok().
class [[nodiscard]] Status {
 public:
  static constexpr int kTextBytes = 248;  // as colibri_error::message, NUL included

  Status() noexcept : code_(StatusCode::kOk) { text_[0] = '\0'; }

  bool is_ok() const noexcept { return code_ == StatusCode::kOk; }
  StatusCode code() const noexcept { return code_; }
  const char *message() const noexcept { return text_; }

 private:
  friend Status make_status(StatusCode code, const char *format, ...) noexcept;
  friend Status make_status_v(StatusCode code, const char *format, __builtin_va_list args) noexcept;
  StatusCode code_;
  char text_[kTextBytes];
};

// Builds a failure. The text follows printf and is cut at kTextBytes - 1 bytes, never inside a
// UTF-8 character. Write what was wrong, with which value, where, and what to do about it.
[[gnu::format(printf, 2, 3)]] Status make_status(StatusCode code, const char *format, ...) noexcept;
Status make_status_v(StatusCode code, const char *format, __builtin_va_list args) noexcept;

// Carries a Status off the step path. what() is the message.
class Error : public std::exception {
 public:
  explicit Error(const Status &status) noexcept : status_(status) {}
  const char *what() const noexcept override { return status_.message(); }
  const Status &status() const noexcept { return status_; }

 private:
  Status status_;
};

[[noreturn]] [[gnu::format(printf, 2, 3)]] void throw_error(StatusCode code, const char *format,
                                                            ...);

// Throws Error if `status` is a failure.
void throw_if_failed(const Status &status);

// "COLIBRI_E_IO" for kIo; "COLIBRI_E_UNKNOWN" for a number that is not in the table. Static
// storage.
const char *status_code_name(int32_t code) noexcept;
// One sentence on what the code means in general. Static storage.
const char *status_code_text(int32_t code) noexcept;

}  // namespace colibri

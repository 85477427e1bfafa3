// SPDX-License-Identifier: Apache-2.0
//
// The one place where failures leave the library: guard() runs the body of an exported function and
// turns what comes out of it into a code and a text. A try block anywhere else turns a failed
// allocation into a Status at a noexcept border (step path, thread entry points) and says so.

#pragma once

#include <type_traits>

#include "colibri/status.h"
#include "lib/base/float_mode.h"
#include "lib/base/function_ref.h"
#include "lib/base/status.h"

namespace colibri {

// Writes `status` into the caller's error struct, if there is a usable one, and returns its code.
colibri_status report(const Status &status, colibri_error *error) noexcept;

// Runs `body` and reports its outcome: a returned Status, an Error, or any other exception.
colibri_status run_guarded(colibri_error *error, FunctionRef<Status()> body) noexcept;

// For bodies that do not compute with floats. `body` returns Status or nothing.
template <typename Body>
colibri_status guard(colibri_error *error, Body &&body) noexcept {
  return run_guarded(error, [&body]() -> Status {
    if constexpr (std::is_void_v<std::invoke_result_t<Body &>>) {
      body();
      return Status();
    } else {
      return body();
    }
  });
}

// For bodies whose numbers must not depend on the host's floating-point mode.
template <typename Body>
colibri_status guard_computing(colibri_error *error, Body &&body) noexcept {
  const ScopedFloatMode float_mode;
  return guard(error, body);
}

}  // namespace colibri

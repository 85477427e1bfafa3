// SPDX-License-Identifier: Apache-2.0
//
// Exceptions become codes here. An out-of-memory error has a fixed text: nothing is allocated on
// the way out.

#include "lib/capi/guard.h"

#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "lib/capi/sized_struct.h"

namespace colibri {

colibri_status report(const Status &status, colibri_error *error) noexcept {
  const colibri_status code = static_cast<colibri_status>(status.code());
  if (error == nullptr) return code;
  if (error->struct_size < sizeof(colibri_error) || error->struct_size > kLargestStructBytes) {
    return code;
  }
  static_assert(sizeof(error->message) == Status::kTextBytes);
  error->code = code;
  std::strncpy(error->message, status.message(), sizeof(error->message) - 1);
  error->message[sizeof(error->message) - 1] = '\0';
  return code;
}

colibri_status run_guarded(colibri_error *error, FunctionRef<Status()> body) noexcept {
  try {
    return report(body(), error);
  } catch (const Error &failure) {
    return report(failure.status(), error);
  } catch (const std::bad_alloc &) {
    return report(make_status(StatusCode::kMemory, "out of memory"), error);
  } catch (const std::exception &failure) {
    return report(make_status(StatusCode::kInternal, "unexpected failure: %s", failure.what()),
                  error);
  } catch (...) {
    return report(make_status(StatusCode::kInternal, "unexpected failure of unknown kind"), error);
  }
}

}  // namespace colibri

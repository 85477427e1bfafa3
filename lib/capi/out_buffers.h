// SPDX-License-Identifier: Apache-2.0
//
// Arrays and texts that go into a buffer of the caller: one rule for size queries and for buffers
// that are too small.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lib/base/status.h"

namespace colibri {

// Throws Error(kArgument) "<name> is NULL" for a required pointer.
void require_pointer(const void *pointer, const char *name);

// A buffer of the caller. Checked before the work is done, so that a wrong call costs nothing.
class OutBuffer {
 public:
  // needed: where the count goes, also when the buffer is too small. Throws Error(kArgument):
  // buffer NULL with a capacity, or a size query without `needed`.
  OutBuffer(void *buffer, size_t capacity, size_t *needed, const char *name);

  // True if the call only asks for the count.
  bool is_size_query() const noexcept { return buffer_ == nullptr; }
  // kCapacity if the elements do not fit.
  template <typename T>
  Status put(std::span<const T> elements) const noexcept {
    return put_bytes(elements.data(), elements.size(), sizeof(T));
  }
  // The text and a NUL, which the count leaves out.
  Status put_text(std::string_view text) const noexcept;
  // Only the check and the count, for who writes the elements himself unless it is a size query.
  Status claim(size_t count) const noexcept { return claim_bytes(count, 0); }

 private:
  Status claim_bytes(size_t count, size_t n_extra) const noexcept;
  Status put_bytes(const void *data, size_t count, size_t element_bytes) const noexcept;

  void *buffer_;
  size_t capacity_;
  size_t *needed_;
  const char *name_;
};

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// OutBuffer: copies, or says how much room is missing.

#include "lib/capi/out_buffers.h"

#include <cstring>

namespace colibri {

void require_pointer(const void *pointer, const char *name) {
  if (pointer == nullptr) throw_error(StatusCode::kArgument, "%s is NULL", name);
}

OutBuffer::OutBuffer(void *buffer, size_t capacity, size_t *needed, const char *name)
    : buffer_(buffer), capacity_(capacity), needed_(needed), name_(name) {
  if (buffer == nullptr && capacity != 0) {
    throw_error(StatusCode::kArgument, "%s is NULL with capacity %zu; a size query has capacity 0",
                name, capacity);
  }
  if (buffer == nullptr && needed == nullptr) {
    throw_error(StatusCode::kArgument, "%s and the pointer for its size are both NULL", name);
  }
}

Status OutBuffer::claim_bytes(size_t count, size_t n_extra) const noexcept {
  if (needed_ != nullptr) *needed_ = count;
  if (buffer_ == nullptr || count + n_extra <= capacity_) return Status();
  return make_status(StatusCode::kCapacity, "%s has room for %zu elements; %zu are needed", name_,
                     capacity_, count + n_extra);
}

Status OutBuffer::put_text(std::string_view text) const noexcept {
  const Status status = claim_bytes(text.size(), 1);
  if (!status.is_ok() || buffer_ == nullptr) return status;
  std::memcpy(buffer_, text.data(), text.size());
  static_cast<char *>(buffer_)[text.size()] = '\0';
  return status;
}

Status OutBuffer::put_bytes(const void *data, size_t count, size_t element_bytes) const noexcept {
  const Status status = claim_bytes(count, 0);
  if (!status.is_ok() || buffer_ == nullptr || count == 0) return status;
  std::memcpy(buffer_, data, count * element_bytes);
  return status;
}

}  // namespace colibri

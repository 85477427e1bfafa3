// SPDX-License-Identifier: Apache-2.0
//
// Copies between structs of different versions. Sizes are read with memcpy: the caller's struct may
// be smaller than the type says.

#include "lib/capi/sized_struct.h"

#include <algorithm>
#include <cstring>

#include "lib/base/status.h"

namespace colibri {

uint32_t check_sized(const void *out, StructSizes sizes, const char *name) {
  if (out == nullptr) throw_error(StatusCode::kArgument, "%s is NULL", name);
  uint32_t size = 0;
  std::memcpy(&size, out, sizeof(size));
  if (size < sizes.first_bytes || size > kLargestStructBytes) {
    throw_error(StatusCode::kArgument,
                "%s->struct_size is %u; set it to sizeof, at least %zu and at most %u", name, size,
                sizes.first_bytes, kLargestStructBytes);
  }
  return size;
}

void read_sized(const void *source, StructSizes sizes, const char *name, void *value) {
  const uint32_t size = check_sized(source, sizes, name);
  const char *bytes = static_cast<const char *>(source);
  const auto is_zero = [](char byte) { return byte == 0; };
  if (size > sizes.known_bytes && !std::all_of(bytes + sizes.known_bytes, bytes + size, is_zero)) {
    throw_error(StatusCode::kArgument,
                "%s sets a field behind byte %zu, which this version of the library does not know",
                name, sizes.known_bytes);
  }
  std::memcpy(value, source, std::min<size_t>(size, sizes.known_bytes));
}

void write_sized(const void *value, size_t known_bytes, size_t out_bytes, void *out) noexcept {
  std::memcpy(out, value, std::min(known_bytes, out_bytes));
  if (out_bytes > known_bytes) {
    std::memset(static_cast<char *>(out) + known_bytes, 0, out_bytes - known_bytes);
  }
}

void fill_defaults(void *options, size_t struct_size) noexcept {
  if (options == nullptr || struct_size < sizeof(uint32_t)) return;
  std::memset(options, 0, struct_size);
  const uint32_t size = static_cast<uint32_t>(std::min<size_t>(struct_size, UINT32_MAX));
  std::memcpy(options, &size, sizeof(size));
}

}  // namespace colibri

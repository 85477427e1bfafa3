// SPDX-License-Identifier: Apache-2.0
//
// The rules of structs that begin with struct_size (colibri.h, convention 2): which sizes are
// accepted, what is read, and what is written.

#pragma once

#include <cstddef>
#include <cstdint>

#include "colibri/colibri.h"

namespace colibri {

// A larger struct_size is taken for memory that was never filled.
constexpr uint32_t kLargestStructBytes = 4096;

// Bytes of each struct in its first version, up to the end of its last field then. Never changed.
template <typename T>
constexpr size_t kFirstVersionBytes = 0;
#define COLIBRI_FIRST_VERSION(type, last_field) \
  template <>                                   \
  constexpr size_t kFirstVersionBytes<type> =   \
      offsetof(type, last_field) + sizeof(type::last_field);
COLIBRI_FIRST_VERSION(colibri_model_options, refuse_outside_links)
COLIBRI_FIRST_VERSION(colibri_plan, largest_context_tokens)
COLIBRI_FIRST_VERSION(colibri_model_facts, identity)
COLIBRI_FIRST_VERSION(colibri_chat_message, text)
COLIBRI_FIRST_VERSION(colibri_scheduler_options, max_queued)
COLIBRI_FIRST_VERSION(colibri_sampler, seed)
COLIBRI_FIRST_VERSION(colibri_request_options, reserved)
COLIBRI_FIRST_VERSION(colibri_step_result, elapsed_ns)
COLIBRI_FIRST_VERSION(colibri_event, message)
COLIBRI_FIRST_VERSION(colibri_model_stats, n_rows)
COLIBRI_FIRST_VERSION(colibri_scheduler_stats, n_tokens)
COLIBRI_FIRST_VERSION(colibri_measure_options, memory_bytes)
COLIBRI_FIRST_VERSION(colibri_machine_figures, instruction)
COLIBRI_FIRST_VERSION(colibri_kernel_figures, roof_share)
COLIBRI_FIRST_VERSION(colibri_convert_options, progress_user)
COLIBRI_FIRST_VERSION(colibri_convert_report, relative_error)
COLIBRI_FIRST_VERSION(colibri_verify_report, first_damaged)
COLIBRI_FIRST_VERSION(colibri_synthesis_options, progress_user)
#undef COLIBRI_FIRST_VERSION

struct StructSizes {
  size_t first_bytes;
  size_t known_bytes;
};

// Untyped halves of the functions below. `name` is the parameter's, for messages.
void read_sized(const void *source, StructSizes sizes, const char *name, void *value);
uint32_t check_sized(const void *out, StructSizes sizes, const char *name);
void write_sized(const void *value, size_t known_bytes, size_t out_bytes, void *out) noexcept;
void fill_defaults(void *options, size_t struct_size) noexcept;

template <typename T>
constexpr StructSizes sizes_of() noexcept {
  static_assert(kFirstVersionBytes<T> != 0 && kFirstVersionBytes<T> <= sizeof(T));
  return {kFirstVersionBytes<T>, sizeof(T)};
}

// A copy of the caller's option struct; what the caller's version does not have is 0, as is all of
// it for NULL. Throws Error(kArgument) for a size of no version and for an unknown rest that is not
// zero.
template <typename T>
T read_struct(const T *source, const char *name) {
  T value{};
  if (source != nullptr) read_sized(source, sizes_of<T>(), name, &value);
  value.struct_size = sizeof(T);
  return value;
}

// Checks the caller's result struct before the work; returns its struct_size. Throws
// Error(kArgument).
template <typename T>
uint32_t check_result(const T *out, const char *name) {
  return check_sized(out, sizes_of<T>(), name);
}

// Fills a result struct of out_bytes, as check_result() returned it; its struct_size stays.
template <typename T>
void write_result(T value, uint32_t out_bytes, T *out) noexcept {
  value.struct_size = out_bytes;
  write_sized(&value, sizeof(T), out_bytes, out);
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// The C API for C++ hosts: owners that close what they hold, and call(), which turns a status into
// an exception. Small on purpose; a host may copy this file.

#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "colibri/colibri.h"

namespace colibri::command {

// A call of the library failed. what() is the library's text.
class CallFailure : public std::runtime_error {
 public:
  CallFailure(colibri_status status, const char *message)
      : std::runtime_error(message), status_(status) {}
  colibri_status status() const noexcept { return status_; }

 private:
  colibri_status status_;
};

// Calls a fallible function with its arguments and an error struct of its own. Throws CallFailure.
template <class Function, class... Arguments>
void call(Function function, Arguments... arguments) {
  colibri_error error = COLIBRI_ERROR_INIT;
  const colibri_status status = function(arguments..., &error);
  if (status != COLIBRI_OK) throw CallFailure(status, error.message);
}

template <auto kClose>
struct Closer {
  template <class Handle>
  void operator()(Handle *handle) const noexcept {
    kClose(handle, nullptr);
  }
};

using ModelPtr = std::unique_ptr<colibri_model, Closer<colibri_model_close>>;
using TokenizerPtr = std::unique_ptr<colibri_tokenizer, Closer<colibri_tokenizer_close>>;
using SlotPtr = std::unique_ptr<colibri_kv_slot, Closer<colibri_kv_slot_destroy>>;
using BatchPtr = std::unique_ptr<colibri_batch, Closer<colibri_batch_destroy>>;
using SchedulerPtr = std::unique_ptr<colibri_scheduler, Closer<colibri_scheduler_destroy>>;

// A result struct with struct_size set and everything else 0.
template <class Struct>
Struct sized() noexcept {
  Struct result = {};
  result.struct_size = sizeof(Struct);
  return result;
}

// Two-step reads: asks for the size, then for the content. `read(buffer, capacity, &count)` throws
// on failure.
template <class Container, class Read>
Container read_sized(Read read) {
  size_t count = 0;
  read(nullptr, 0, &count);
  Container content(count + 1, {});  // one more: texts end in NUL
  read(content.data(), content.size(), &count);
  content.resize(count);
  return content;
}

}  // namespace colibri::command

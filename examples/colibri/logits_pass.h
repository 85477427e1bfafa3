// SPDX-License-Identifier: Apache-2.0
//
// Logits of every position of a sequence, computed in chunks through the low level of the API: slot
// and batch.

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "examples/colibri/colibri_raii.h"

namespace colibri::command {

// Rows of one pass if --chunk does not say.
constexpr uint32_t kDefaultChunk = 128;

class LogitsPass {
 public:
  // The model must outlive the pass, and have been opened with max_rows and max_logits_rows of at
  // least `chunk`.
  LogitsPass(colibri_model *model, uint32_t chunk);

  // Computes `ids` as a sequence of its own, from position 0. `on_row(position, logits)` is called
  // in order. Returns false if Ctrl-C ended it early. Throws CallFailure.
  using OnRow = std::function<void(size_t position, std::span<const float> logits)>;
  bool run(std::span<const int32_t> ids, const OnRow &on_row);

 private:
  SlotPtr slot_;
  BatchPtr batch_;
  uint32_t chunk_;
};

}  // namespace colibri::command

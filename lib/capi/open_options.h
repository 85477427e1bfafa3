// SPDX-License-Identifier: Apache-2.0
//
// What a model is opened with: the caller's options, checked, with every default filled in that can
// be known. The only place that states ranges and defaults of colibri_model_options.

#pragma once

#include <cstdint>
#include <string>

#include "colibri/model.h"
#include "lib/base/log.h"
#include "lib/base/system.h"
#include "lib/model/model.h"

namespace colibri {

struct OpenOptions {
  uint32_t n_threads = 0;
  uint64_t ram_budget_bytes = 0;  // 0: automatic
  uint32_t n_slots = 0;
  uint32_t context_tokens = 0;  // 0 until resolve_context()
  uint32_t max_rows = 0;
  uint32_t max_logits_rows = 0;
  uint32_t n_engines = 0;
  uint32_t n_loader_threads = 0;
  ModelOptions model;
  KvType kv_type = KvType::kF32;
  bool skips_tokenizer = false;
  bool refuses_outside_links = false;
  std::string kernel_set;  // empty: the fastest
  colibri_progress_fn progress = nullptr;
  void *progress_user = nullptr;
  Log log;
};

// Throws Error: kArgument for a value outside its range (field, value, range), kUnsupported for a
// number of an enumeration that this version does not know.
OpenOptions read_open_options(const colibri_model_options *options);

// Default and range of context_tokens, which depend on the model. Throws Error(kArgument).
void resolve_context(uint32_t max_positions, OpenOptions *options);

struct Budget {
  uint64_t bytes;
  std::string origin;  // "option", or what decided it
};

// `wanted_bytes` if it is not 0, else 90 % of what `limit` leaves. Throws Error(kBudget) if that is
// unknown, too.
Budget resolve_budget(uint64_t wanted_bytes, const MemoryLimit &limit);

}  // namespace colibri

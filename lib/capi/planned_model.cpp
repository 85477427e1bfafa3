// SPDX-License-Identifier: Apache-2.0
//
// The steps before memory is taken, cheapest refusals first.

#include "lib/capi/planned_model.h"

#include "lib/base/file.h"
#include "lib/capi/backends.h"

namespace colibri {
namespace {

std::string find_tokenizer(const Snapshot &snapshot, const OpenOptions &options) {
  if (options.skips_tokenizer) return {};
  std::string path = join_path(snapshot.directory(), "tokenizer.json");
  return is_named(path) ? path : std::string();
}

// An explicit budget needs no probe.
Budget find_budget(const OpenOptions &options) {
  if (options.ram_budget_bytes != 0) return resolve_budget(options.ram_budget_bytes, {});
  return resolve_budget(0, probe_memory_limit(""));
}

}  // namespace

PlannedModel::PlannedModel(const std::string &path, const OpenOptions &options)
    : options_(options),
      snapshot_(Snapshot::open(
          path, options.refuses_outside_links ? LinkPolicy::kInside : LinkPolicy::kFollow)) {
  resolve_context(snapshot_.config().max_positions, &options_);
  threads_ = std::make_unique<ThreadPool>(options_.n_threads);
  backend_ = make_backend(*threads_, options_.kernel_set);
  tokenizer_path_ = find_tokenizer(snapshot_, options_);
  const uint64_t tokenizer_bytes = tokenizer_path_.empty() ? 0 : open_file(tokenizer_path_)->size();
  plan_ =
      make_capacity_plan(snapshot_, *backend_, options_, find_budget(options_), tokenizer_bytes);
}

}  // namespace colibri

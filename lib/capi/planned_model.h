// SPDX-License-Identifier: Apache-2.0
//
// PlannedModel: what is known of a model before its weights are read: options, snapshot, threads,
// backend and the capacity plan. Planning and opening share it, so a plan is what opening will do.

#pragma once

#include <memory>
#include <string>

#include "lib/backend/backend.h"
#include "lib/base/parallel.h"
#include "lib/capi/capacity_plan.h"
#include "lib/capi/open_options.h"
#include "lib/snapshot/snapshot.h"

namespace colibri {

class PlannedModel {
 public:
  // Throws Error as colibri_model_plan() documents.
  PlannedModel(const std::string &path, const OpenOptions &options);

  const OpenOptions &options() const noexcept { return options_; }
  const Snapshot &snapshot() const noexcept { return snapshot_; }
  ThreadPool &threads() noexcept { return *threads_; }
  const ThreadPool &threads() const noexcept { return *threads_; }
  Backend &backend() noexcept { return *backend_; }
  const Backend &backend() const noexcept { return *backend_; }
  const CapacityPlan &plan() const noexcept { return plan_; }
  // Path of the tokenizer.json to load; empty if there is none or none is wanted.
  const std::string &tokenizer_path() const noexcept { return tokenizer_path_; }

 private:
  OpenOptions options_;
  Snapshot snapshot_;
  std::unique_ptr<ThreadPool> threads_;
  std::unique_ptr<Backend> backend_;
  std::string tokenizer_path_;
  CapacityPlan plan_;
};

}  // namespace colibri

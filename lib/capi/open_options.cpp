// SPDX-License-Identifier: Apache-2.0
//
// Ranges and defaults. 0 is the default of every field, so no range needs to contain it.

#include "lib/capi/open_options.h"

#include <algorithm>

#include "lib/base/parallel.h"
#include "lib/base/status.h"
#include "lib/capi/option_checks.h"
#include "lib/capi/sized_struct.h"
#include "lib/model/rotary.h"

namespace colibri {
namespace {

constexpr uint32_t kMaxSlots = 512;
constexpr uint32_t kMaxRows = 4096;
constexpr uint32_t kMaxEngines = 64;
constexpr uint32_t kMaxLoaderThreads = 64;
constexpr uint32_t kDefaultContext = 4096;
constexpr uint32_t kDefaultRows = 128;
constexpr uint32_t kDefaultLogitsRows = 8;
constexpr uint32_t kDefaultLoaderThreads = 4;

ModelOptions read_model_options(const colibri_model_options &options) {
  ModelOptions model;
  switch (options.activations) {
    case COLIBRI_ACTIVATIONS_DEFAULT:
    case COLIBRI_ACTIVATIONS_INT8:
      model.activations = ActivationMode::kInteger;
      break;
    case COLIBRI_ACTIVATIONS_FLOAT:
      model.activations = ActivationMode::kFloat;
      break;
    default:
      throw_error(StatusCode::kUnsupported,
                  "activations is %d; this version knows 0 (default), 1 (int8) and 2 (float)",
                  options.activations);
  }
  const float epsilon = options.latent_norm_eps;
  if (epsilon != 0.0f && !(epsilon >= 1e-12f && epsilon <= 1.0f)) {
    throw_error(StatusCode::kArgument,
                "latent_norm_eps is %g; must be 1e-12..1, or 0 for the model's own",
                static_cast<double>(epsilon));
  }
  model.latent_norm_eps = epsilon;
  return model;
}

KvType read_kv_type(const colibri_model_options &options) {
  switch (options.kv_type) {
    case COLIBRI_KV_DEFAULT:
    case COLIBRI_KV_F32:
      return KvType::kF32;
    case COLIBRI_KV_BF16:
      return KvType::kBF16;
    case COLIBRI_KV_F16:
      return KvType::kF16;
    default:
      throw_error(StatusCode::kUnsupported,
                  "kv_type is %d; this version knows 0 (default), 1 (float32), 2 (bfloat16) and 3 "
                  "(float16)",
                  options.kv_type);
  }
}

Log read_log(const colibri_model_options &options) {
  const int32_t level = options.log_level == 0 ? COLIBRI_LOG_INFO : options.log_level;
  if (level < COLIBRI_LOG_ERROR || level > COLIBRI_LOG_DEBUG) {
    throw_error(StatusCode::kArgument, "log_level is %d; must be 1..4, or 0 for the default",
                options.log_level);
  }
  return Log(options.log, options.log_user, static_cast<LogLevel>(level));
}

}  // namespace

OpenOptions read_open_options(const colibri_model_options *given) {
  const colibri_model_options options = read_struct(given, "options");
  OpenOptions result;
  result.n_threads = in_range("n_threads", options.n_threads, 0, ThreadPool::kMaxThreads);
  if (result.n_threads == 0) result.n_threads = probe_core_count("");
  result.ram_budget_bytes = options.ram_budget_bytes;
  result.n_slots = in_range("n_slots", options.n_slots, 1, kMaxSlots);
  result.context_tokens = options.context_tokens;
  result.max_rows = in_range("max_rows", options.max_rows, kDefaultRows, kMaxRows);
  result.max_logits_rows = in_range(
      "max_logits_rows", options.max_logits_rows,
      std::min(std::max(kDefaultLogitsRows, result.n_slots), result.max_rows), result.max_rows);
  result.n_engines = in_range("n_engines", options.n_engines, 1, kMaxEngines);
  result.n_loader_threads = in_range("n_loader_threads", options.n_loader_threads,
                                     kDefaultLoaderThreads, kMaxLoaderThreads);
  result.model = read_model_options(options);
  result.kv_type = read_kv_type(options);
  result.skips_tokenizer = read_flag("skip_tokenizer", options.skip_tokenizer);
  if (options.kernel_set != nullptr) result.kernel_set = options.kernel_set;
  result.progress = options.progress;
  result.progress_user = options.progress_user;
  result.log = read_log(options);
  result.refuses_outside_links = read_flag("refuse_outside_links", options.refuse_outside_links);
  return result;
}

void resolve_context(uint32_t max_positions, OpenOptions *options) {
  const uint32_t most = std::min(max_positions, kMaxRotaryPositions);
  options->context_tokens =
      in_range("context_tokens", options->context_tokens, std::min(kDefaultContext, most), most);
}

Budget resolve_budget(uint64_t wanted_bytes, const MemoryLimit &limit) {
  if (wanted_bytes != 0) return {wanted_bytes, "option"};
  if (limit.total_bytes == 0 && limit.available_bytes == 0) {
    throw_error(StatusCode::kBudget,
                "how much memory this process may use could not be found out (%s); set "
                "ram_budget_bytes",
                limit.decided_by.c_str());
  }
  return {limit.available_bytes / 10 * 9, limit.decided_by};
}

}  // namespace colibri

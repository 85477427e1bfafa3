// SPDX-License-Identifier: Apache-2.0
//
// include/colibri/model.h: plan, open, facts, close.

#include "colibri/model.h"

#include <memory>
#include <optional>
#include <span>

#include "lib/capi/describe.h"
#include "lib/capi/guard.h"
#include "lib/capi/objects.h"
#include "lib/capi/out_buffers.h"
#include "lib/capi/sized_struct.h"
#include "lib/capi/stats_reader.h"

namespace colibri {
namespace {

int32_t kv_type_number(KvType type) noexcept {
  switch (type) {
    case KvType::kF32:
      return COLIBRI_KV_F32;
    case KvType::kBF16:
      return COLIBRI_KV_BF16;
    case KvType::kF16:
      return COLIBRI_KV_F16;
  }
  return COLIBRI_KV_DEFAULT;
}

colibri_plan to_public(const PlannedModel &planned) noexcept {
  const CapacityPlan &plan = planned.plan();
  const MemoryPlan &memory = plan.memory;
  const OpenOptions &options = planned.options();
  colibri_plan result{};
  result.is_feasible = is_feasible(memory) ? 1 : 0;
  result.budget_bytes = memory.inputs.budget_bytes;
  result.dense_bytes = memory.inputs.dense_bytes;
  result.kv_bytes = memory.inputs.kv_bytes;
  result.workspace_bytes = memory.inputs.workspace_bytes;
  result.staging_bytes = memory.inputs.staging_bytes;
  result.overhead_bytes = memory.inputs.overhead_bytes;
  result.expert_bytes = memory.expert_bytes;
  result.total_bytes = memory.total_bytes;
  result.minimum_bytes = memory.minimum_bytes;
  result.full_bytes = memory.full_bytes;
  result.all_experts_bytes = memory.inputs.all_experts_bytes;
  result.largest_expert_bytes = memory.inputs.largest_expert_bytes;
  result.n_experts = memory.inputs.n_experts;
  result.kv_bytes_per_token = plan.kv_bytes_per_token;
  result.n_slots = options.n_slots;
  result.context_tokens = options.context_tokens;
  result.max_rows = options.max_rows;
  result.max_logits_rows = options.max_logits_rows;
  result.n_engines = options.n_engines;
  result.n_threads = options.n_threads;
  result.largest_context_tokens = plan.largest_context_tokens;
  return result;
}

colibri_model_facts to_public(const OpenModel &open) noexcept {
  const ModelConfig &config = open.config();
  const OpenOptions &options = open.options();
  colibri_model_facts facts{};
  facts.vocabulary_size = config.vocabulary_size;
  facts.n_token_ids = open.n_token_ids();
  facts.width = config.width;
  facts.n_layers = config.n_layers;
  facts.n_experts = config.n_experts;
  facts.n_experts_per_token = config.n_experts_per_token;
  facts.max_positions = config.max_positions;
  facts.context_tokens = options.context_tokens;
  facts.n_slots = options.n_slots;
  facts.max_rows = options.max_rows;
  facts.max_logits_rows = options.max_logits_rows;
  facts.n_engines = options.n_engines;
  facts.n_threads = options.n_threads;
  facts.activations = options.model.activations == ActivationMode::kFloat
                          ? COLIBRI_ACTIVATIONS_FLOAT
                          : COLIBRI_ACTIVATIONS_INT8;
  facts.kv_type = kv_type_number(options.kv_type);
  facts.latent_norm_eps = open.model().latent_norm_eps();
  facts.has_tokenizer = open.tokenizer() != nullptr ? 1 : 0;
  facts.kernel_set = open.planned().backend().kernel_set_name();
  facts.model_type = config.model_type.c_str();
  facts.identity = open.planned().snapshot().index().identity_hash();
  facts.kv_window_layers = open.model().kv_layout().n_ring_layers();
  return facts;
}

void require_childless(const colibri_model &model) {
  const uint32_t n_slots = model.n_slots;
  const uint32_t n_batches = model.n_batches;
  const uint32_t n_schedulers = model.n_schedulers;
  const uint32_t n_decoders = model.tokenizer == nullptr ? 0 : model.tokenizer->n_decoders.load();
  if ((n_slots | n_batches | n_schedulers | n_decoders) == 0) return;
  throw_error(StatusCode::kBusy,
              "the model still has %u slots, %u batches, %u schedulers and %u stream decoders; "
              "destroy them first",
              n_slots, n_batches, n_schedulers, n_decoders);
}

}  // namespace
}  // namespace colibri

void colibri_model_options_init(colibri_model_options *options, size_t struct_size) {
  colibri::fill_defaults(options, struct_size);
}

colibri_status colibri_model_plan(const char *path, const colibri_model_options *options,
                                  colibri_plan *plan, colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(path, "path");
    const uint32_t out_bytes = colibri::check_result(plan, "plan");
    const colibri::PlannedModel planned(path, colibri::read_open_options(options));
    colibri::write_result(colibri::to_public(planned), out_bytes, plan);
  });
}

colibri_status colibri_model_plan_json(const char *path, const colibri_model_options *options,
                                       char *buffer, size_t capacity, size_t *length,
                                       colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(path, "path");
    const colibri::OutBuffer out(buffer, capacity, length, "buffer");
    const colibri::PlannedModel planned(path, colibri::read_open_options(options));
    return out.put_text(colibri::describe_plan(planned));
  });
}

colibri_status colibri_snapshot_describe(const char *path, char *buffer, size_t capacity,
                                         size_t *length, colibri_error *error) {
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(path, "path");
    const colibri::OutBuffer out(buffer, capacity, length, "buffer");
    return out.put_text(colibri::describe_snapshot(colibri::Snapshot::open(path)));
  });
}

colibri_status colibri_model_open(const char *path, const colibri_model_options *options,
                                  colibri_model **model, colibri_error *error) {
  if (model != nullptr) *model = nullptr;
  return colibri::guard_computing(error, [&] {
    colibri::require_pointer(path, "path");
    colibri::require_pointer(model, "model");
    *model = std::make_unique<colibri_model>(path, colibri::read_open_options(options)).release();
  });
}

colibri_status colibri_model_close(colibri_model *model, colibri_error *error) {
  return colibri::guard(error, [&] {
    if (model == nullptr) return;
    colibri::Close<colibri_model> use(model, "model");
    // Nobody may be encoding with the model's tokenizer. Its gate is closed before children are
    // counted, so that no stream decoder of it can be made in between.
    std::optional<colibri::Close<colibri_tokenizer>> tokenizer;
    if (model->tokenizer != nullptr) {
      tokenizer.emplace(model->tokenizer.get(), "the model's tokenizer");
    }
    colibri::require_childless(*model);
    if (tokenizer.has_value()) (void)tokenizer->take().release();  // it goes with the model
    use.take().reset();
  });
}

colibri_status colibri_model_get_facts(const colibri_model *model, colibri_model_facts *facts,
                                       colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_model> use(model, "model");
    const uint32_t out_bytes = colibri::check_result(facts, "facts");
    colibri::write_result(colibri::to_public(use->open), out_bytes, facts);
  });
}

colibri_status colibri_model_describe(const colibri_model *model, char *buffer, size_t capacity,
                                      size_t *length, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_model> use(model, "model");
    const colibri::OutBuffer out(buffer, capacity, length, "buffer");
    return out.put_text(colibri::describe_model(use->open, colibri::read_stats(*use)));
  });
}

colibri_status colibri_model_stop_ids(const colibri_model *model, int32_t *ids, size_t capacity,
                                      size_t *n_ids, colibri_error *error) {
  return colibri::guard(error, [&] {
    const colibri::Visit<const colibri_model> use(model, "model");
    const colibri::OutBuffer out(ids, capacity, n_ids, "ids");
    return out.put(std::span<const int32_t>(use->open.stop_ids()));
  });
}

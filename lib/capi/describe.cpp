// SPDX-License-Identifier: Apache-2.0
//
// Reports are built from what is loaded and planned, never from what was asked for.

#include "lib/capi/describe.h"

#include <algorithm>
#include <charconv>

#include "colibri/version.h"
#include "lib/base/hex_text.h"
#include "lib/snapshot/json.h"

namespace colibri {
namespace {

// The double whose shortest text is that of the float: 1e-06, not 9.999999974752427e-07.
double as_written(float number) noexcept {
  char text[32];
  const std::to_chars_result end = std::to_chars(text, text + sizeof(text), number);
  double result = static_cast<double>(number);
  std::from_chars(text, end.ptr, result);
  return result;
}

void write_formats(const Snapshot &snapshot, JsonWriter &json) {
  FormatCount all;
  const auto formats = snapshot.format_histogram();
  for (const auto &[name, count] : formats) {
    all.n_tensors += count.n_tensors;
    all.bytes += count.bytes;
  }
  json.key("tensors").begin_object();
  json.key("count").value(all.n_tensors).key("bytes").value(all.bytes);
  json.key("formats").begin_object();
  for (const auto &[name, count] : formats) {
    json.key(name).begin_object();
    json.key("count").value(count.n_tensors).key("bytes").value(count.bytes).end_object();
  }
  json.end_object().end_object();
}

void write_experts(const Snapshot &snapshot, JsonWriter &json) {
  uint64_t n_layers = 0;
  uint64_t n_experts = 0;
  for (const LayerSources &layer : snapshot.sources().layers) {
    n_layers += layer.experts.empty() ? 0 : 1;
    n_experts += layer.experts.size();
  }
  json.key("experts").begin_object();
  json.key("layers").value(n_layers);
  json.key("per_layer").value(snapshot.config().n_experts);
  json.key("per_token").value(snapshot.config().n_experts_per_token);
  json.key("count").value(n_experts);
  json.key("bytes").value(snapshot.all_experts_bytes());
  json.key("largest_bytes").value(snapshot.largest_expert_bytes());
  json.key("packed_bytes").value(ExpertCache::all_packed_experts_bytes(snapshot.sources()));
  json.end_object();
}

template <typename Texts>
void write_texts(const char *key, const Texts &texts, JsonWriter &json) {
  json.key(key).begin_array();
  for (const auto &text : texts) json.value(text);
  json.end_array();
}

// The choices in which models differ.
void write_parts(const ModelConfig &config, JsonWriter &json) {
  json.key("attention").value(config.attention == AttentionKind::kLatent ? "latent" : "grouped");
  const bool has_window = std::any_of(config.windows.begin(), config.windows.end(),
                                      [](uint32_t window) { return window != 0; });
  if (has_window) write_texts("windows", config.windows, json);
  json.key("router").value(router_kind_name(config.router));
}

void write_snapshot(const Snapshot &snapshot, JsonWriter &json) {
  json.begin_object();
  json.key("model_type").value(snapshot.config().model_type);
  json.key("identity").value(hex_text(snapshot.index().identity_hash()));
  json.key("layers").value(snapshot.config().n_layers);
  write_parts(snapshot.config(), json);
  json.key("config").value(snapshot.config_document().root());
  write_formats(snapshot, json);
  write_experts(snapshot, json);
  write_texts("stop_ids", snapshot.stop_ids(), json);
  write_texts("stop_tokens", snapshot.stop_token_texts(), json);
  json.key("shards").begin_array();
  for (const ShardFile &file : snapshot.index().files()) {
    json.begin_object().key("name").value(file.name);
    json.key("bytes").value(file.reader->size()).end_object();
  }
  json.end_array();
  json.key("ignored_tensors").value(uint64_t{snapshot.sources().ignored_tensors.size()});
  write_texts("warnings", snapshot.warnings(), json);
  json.end_object();
}

void write_items(const MemoryPlan &plan, JsonWriter &json) {
  const PlanInputs &inputs = plan.inputs;
  json.key("items").begin_object();
  json.key("dense").value(inputs.dense_bytes).key("kv").value(inputs.kv_bytes);
  json.key("workspace").value(inputs.workspace_bytes).key("staging").value(inputs.staging_bytes);
  json.key("overhead").value(inputs.overhead_bytes).key("experts").value(plan.expert_bytes);
  json.end_object();
}

void write_tiers(const CapacityPlan &plan, JsonWriter &json) {
  const PlanInputs &inputs = plan.memory.inputs;
  const auto write_tier = [&json](const char *name, uint64_t n_experts, uint64_t bytes) {
    json.key(name).begin_object().key("experts").value(n_experts);
    json.key("expert_bytes").value(bytes).end_object();
  };
  json.key("tiers").begin_object();
  write_tier("ram", plan.n_ram_experts(), plan.memory.expert_bytes);
  write_tier("disk", inputs.n_experts - plan.n_ram_experts(),
             inputs.all_experts_bytes - plan.memory.expert_bytes);
  json.end_object();
}

void write_options(const PlannedModel &planned, JsonWriter &json) {
  const OpenOptions &options = planned.options();
  json.key("options").begin_object();
  json.key("n_slots").value(options.n_slots);
  json.key("context_tokens").value(options.context_tokens);
  json.key("max_rows").value(options.max_rows);
  json.key("max_logits_rows").value(options.max_logits_rows);
  json.key("n_engines").value(options.n_engines);
  json.key("n_threads").value(options.n_threads);
  json.key("n_loader_threads").value(options.n_loader_threads);
  json.key("kernel_set").value(planned.backend().kernel_set_name());
  json.key("activations")
      .value(options.model.activations == ActivationMode::kFloat ? "float" : "int8");
  json.key("kv_type").value(kv_type_name(options.kv_type));
  json.end_object();
}

void write_plan(const PlannedModel &planned, JsonWriter &json) {
  const CapacityPlan &plan = planned.plan();
  const MemoryPlan &memory = plan.memory;
  json.begin_object();
  json.key("feasible").value(is_feasible(memory));
  json.key("budget_bytes").value(memory.inputs.budget_bytes);
  json.key("budget_origin").value(memory.inputs.budget_origin);
  write_items(memory, json);
  json.key("total_bytes").value(memory.total_bytes);
  json.key("minimum_bytes").value(memory.minimum_bytes);
  json.key("full_bytes").value(memory.full_bytes);
  write_tiers(plan, json);
  json.key("experts").begin_object();
  json.key("count").value(memory.inputs.n_experts);
  json.key("bytes").value(memory.inputs.all_experts_bytes);
  json.key("largest_bytes").value(memory.inputs.largest_expert_bytes);
  json.key("minimum_resident").value(memory.inputs.minimum_resident_experts);
  json.end_object();
  json.key("kv_bytes_per_token").value(plan.kv_bytes_per_token);
  json.key("largest_context_tokens").value(plan.largest_context_tokens);
  write_options(planned, json);
  json.end_object();
}

void write_stats(const colibri_model_stats &stats, JsonWriter &json) {
  json.key("stats").begin_object();
  json.key("n_slots_in_use").value(stats.n_slots_in_use);
  json.key("n_engines_in_use").value(stats.n_engines_in_use);
  json.key("largest_queue_depth").value(stats.largest_queue_depth);
  json.key("expert_hits").value(stats.expert_hits);
  json.key("expert_misses").value(stats.expert_misses);
  json.key("expert_reads").value(stats.expert_reads);
  json.key("read_bytes").value(stats.read_bytes);
  json.key("read_failures").value(stats.read_failures);
  json.key("expert_evictions").value(stats.expert_evictions);
  json.key("resident_experts").value(stats.resident_experts);
  json.key("resident_expert_bytes").value(stats.resident_expert_bytes);
  json.key("expert_budget_bytes").value(stats.expert_budget_bytes);
  json.key("expert_wait_ns").value(stats.expert_wait_ns);
  json.key("n_passes").value(stats.n_passes);
  json.key("n_rows").value(stats.n_rows);
  json.key("dense_bytes_touched").value(stats.dense_bytes_touched);
  json.key("expert_bytes_touched").value(stats.expert_bytes_touched);
  json.key("kv_bytes_touched").value(stats.kv_bytes_touched);
  json.key("n_experts_touched").value(stats.n_experts_touched);
  json.key("n_expert_rows").value(stats.n_expert_rows);
  json.key("n_integer_macs").value(stats.n_integer_macs);
  json.key("n_compute_regions").value(stats.n_compute_regions);
  json.key("compute_region_ns").value(stats.compute_region_ns);
  json.key("compute_busy_ns").value(stats.compute_busy_ns);
  json.key("n_expert_macs").value(stats.n_expert_macs);
  json.key("expert_ns").value(stats.expert_ns);
  json.end_object();
}

}  // namespace

std::string describe_snapshot(const Snapshot &snapshot) {
  JsonWriter json;
  write_snapshot(snapshot, json);
  return json.text();
}

std::string describe_plan(const PlannedModel &planned) {
  JsonWriter json;
  write_plan(planned, json);
  return json.text();
}

std::string describe_model(const OpenModel &open, const colibri_model_stats &stats) {
  JsonWriter json;
  json.begin_object();
  json.key("version").value(colibri_version());
  json.key("snapshot");
  write_snapshot(open.planned().snapshot(), json);
  json.key("plan");
  write_plan(open.planned(), json);
  json.key("latent_norm_eps").value(as_written(open.model().latent_norm_eps()));
  json.key("has_tokenizer").value(open.tokenizer() != nullptr);
  write_texts("stop_ids", open.stop_ids(), json);
  write_stats(stats, json);
  json.end_object();
  return json.text();
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Puts a model together and runs passes over it. Immutable after load, apart from the expert cache,
// which locks itself; engines with their own workspaces may run side by side.

#include "lib/model/model.h"

#include <cassert>

#include "lib/base/checked_math.h"
#include "lib/base/float_mode.h"
#include "lib/model/dense_weights.h"
#include "lib/model/forward.h"
#include "lib/model/workspace.h"
#include "lib/residency/weight_packing.h"

namespace colibri {
namespace {

// Activation groups are 16 at least (containers allow 16..256).
constexpr uint32_t kSmallestGroup = 16;

ScratchShape scratch_shape(const ModelConfig &config, uint32_t max_rows) {
  ScratchShape shape;
  shape.max_rows = max_rows;
  shape.n_heads = config.n_heads;
  const bool is_latent = config.attention == AttentionKind::kLatent;
  shape.key_width = is_latent ? config.kv_latent + config.rotary.width : config.head_width;
  shape.value_width = is_latent ? config.kv_latent : config.head_width;
  shape.expert_width = config.expert_width;
  shape.n_experts_per_token = config.n_experts_per_token;
  shape.n_experts = config.n_experts;
  return shape;
}

// The pass multiplies gate and up with the same quantised input.
void check_experts(const ModelSources &sources) {
  for (const LayerSources &layer : sources.layers) {
    for (const ExpertSource &expert : layer.experts) {
      const WeightLayout gate = packed_layout(expert.gate);
      const WeightLayout up = packed_layout(expert.up);
      if (gate == up) continue;
      throw_error(
          StatusCode::kUnsupported,
          "gate %s is stored as %s (group %u, %s scales), up %s as %s (group %u, %s scales); "
          "both must agree",
          expert.gate.name.c_str(), describe_format(expert.gate).c_str(), gate.group,
          scale_type_name(gate.scale_type), expert.up.name.c_str(),
          describe_format(expert.up).c_str(), up.group, scale_type_name(up.scale_type));
    }
  }
}

}  // namespace

struct Model::Impl {
  Impl(const Snapshot &snapshot, Backend &backend_in, ExpertCache *cache_in, const KvShape &kv,
       const ModelOptions &options)
      : config(snapshot.config()),
        backend(backend_in),
        cache(cache_in),
        layers(describe_layers(config)),
        kv_layout(config, kv),
        max_rows(kv.max_rows),
        rotary(config.rotary),
        uses_integers(options.activations == ActivationMode::kInteger),
        latent_norm_eps(options.latent_norm_eps > 0 ? options.latent_norm_eps
                                                    : config.latent_norm_eps) {}

  const ModelConfig config;
  Backend &backend;
  ExpertCache *cache;
  const std::vector<LayerSpec> layers;
  const KvLayout kv_layout;
  const uint32_t max_rows;
  const RotaryFrequencies rotary;
  const bool uses_integers;
  const float latent_norm_eps;
  DenseWeights weights;
  PassTotals totals;
};

uint64_t Model::dense_bytes(const Snapshot &snapshot) {
  return DenseWeights::bytes(snapshot);
}

uint64_t Model::workspace_bytes(const Snapshot &snapshot, const Backend &backend, uint32_t max_rows,
                                uint32_t max_logits_rows, uint32_t capacity) {
  const ModelConfig &config = snapshot.config();
  const uint64_t own =
      Workspace::bytes(config, {max_rows, max_logits_rows, capacity, kSmallestGroup});
  return checked_add(own, backend.scratch_bytes(scratch_shape(config, max_rows)), "workspace");
}

std::unique_ptr<Model> Model::load(const Snapshot &snapshot, Backend &backend, ThreadPool &threads,
                                   ExpertCache *cache, const KvShape &kv,
                                   const ModelOptions &options,
                                   const std::function<bool(uint64_t, uint64_t)> &progress) {
  check_experts(snapshot.sources());
  auto impl = std::make_unique<Impl>(snapshot, backend, cache, kv, options);
  impl->weights.load(snapshot, threads, progress);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

Model::Model(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Model::~Model() = default;

const ModelConfig &Model::config() const noexcept {
  return impl_->config;
}
const KvLayout &Model::kv_layout() const noexcept {
  return impl_->kv_layout;
}
float Model::latent_norm_eps() const noexcept {
  return impl_->latent_norm_eps;
}

WorkspacePtr Model::make_workspace(uint32_t max_rows, uint32_t max_logits_rows) const {
  assert(max_rows <= impl_->max_rows);
  const uint32_t capacity = impl_->kv_layout.capacity();
  return WorkspacePtr(new Workspace(
      impl_->config, {max_rows, max_logits_rows, capacity, kSmallestGroup}, impl_->cache,
      impl_->backend.make_scratch(scratch_shape(impl_->config, max_rows))));
}

void WorkspaceDeleter::operator()(Workspace *workspace) const noexcept {
  delete workspace;
}

void Model::forward(std::span<const ForwardRow> rows, Workspace &workspace,
                    std::span<Status> row_status, ForwardObserver *observer) const noexcept {
  assert(!rows.empty() && rows.size() <= workspace.shape.max_rows &&
         row_status.size() >= rows.size());
  const ScopedFloatMode float_mode;
  const Pass pass = {
      impl_->config, impl_->weights, impl_->kv_layout,     impl_->backend,        workspace, rows,
      row_status,    observer,       impl_->uses_integers, impl_->latent_norm_eps};
  workspace.counters = PassCounters();
  run_forward(pass, impl_->layers, impl_->rotary);
  impl_->totals.add(workspace.counters);
}

PassCounters Model::counters() const noexcept {
  return impl_->totals.read();
}

const float *Model::logits(const Workspace &workspace, uint32_t logits_row) const noexcept {
  return workspace.logits + size_t{logits_row} * impl_->config.vocabulary_size;
}

}  // namespace colibri

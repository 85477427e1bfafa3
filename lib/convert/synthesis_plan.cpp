// SPDX-License-Identifier: Apache-2.0
//
// Magnitudes: inputs of matrices are normalised to about 1 per element, so a matrix whose weights
// have the deviation 1 / sqrt(depth) gives outputs of about 1. The matrices that write into the
// residual stream are smaller by what they shall add.

#include "lib/convert/synthesis_plan.h"

#include <algorithm>
#include <cmath>

#include "lib/base/checked_math.h"
#include "lib/convert/random_codes.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

constexpr uint32_t kGroup = 64;
constexpr uint64_t kMaxShardBytes = 4ull << 30;
// Length of what all layers together add, in lengths of the embedding. Its square is the share of
// the hidden state's direction that routing loses.
constexpr double kAdded = 0.1;
// Deviation of silu(a) * b for independent normal a and b.
constexpr double kGatedDeviation = 0.6;

WeightLayout integer_layout(WeightFormat format, uint64_t columns, uint64_t depth) {
  return quantised_layout(format, columns, depth, kGroup);
}

// The scale of random codes that make outputs of this deviation from inputs of 1.
float scale_for(const WeightLayout &layout, double outputs) {
  const double weights = outputs / std::sqrt(static_cast<double>(layout.depth));
  return static_cast<float>(weights) / code_deviation(layout.format);
}

class Planner {
 public:
  explicit Planner(const ModelConfig &config)
      : config_(config),
        names_(find_family(config.model_type)->names.front()),
        added_(kAdded / std::sqrt(2.0 * config.n_layers)) {}

  SynthesisPlan make() {
    add_head();
    for (uint32_t layer = 0; layer < config_.n_layers; ++layer) add_layer(layer);
    add_plain(kEmbeddingName, "BF16", {config_.vocabulary_size, config_.width},
              {.kind = SynthesisStep::Kind::kEmbedding});
    add_vector(kFinalNormName, config_.width, 1.0f);
    join();
    plan_.output.model_type = config_.model_type;
    plan_.output.options = {"int4", "int8", "bf16", "int8", kGroup, "absmax"};
    plan_.output.max_shard_bytes = kMaxShardBytes;
    return std::move(plan_);
  }

 private:
  struct Result {
    OutputTensor tensor;
    SynthesisStep step;
  };

  void add_packed(const std::string &name, const PackedLayout &layout, const SynthesisStep &step) {
    packed_.push_back({packed_tensor(name, layout), step});
  }

  void add_plain(const std::string &name, const char *type_name, std::vector<uint64_t> shape,
                 const SynthesisStep &step) {
    uint64_t bytes = type_name == std::string_view("F32") ? 4 : 2;
    for (const uint64_t extent : shape) bytes = checked_multiply(bytes, extent, "a tensor");
    plain_.push_back({{name, type_name, std::move(shape), bytes, std::nullopt}, step});
  }

  void add_vector(const std::string &name, uint64_t size, float value) {
    add_plain(name, "F32", {size}, {.kind = SynthesisStep::Kind::kConstant, .values = {value}});
  }

  void add_head() {
    const PackedLayout layout{
        PackedForm::kMatrix,
        1,
        {integer_layout(WeightFormat::kInt8, config_.vocabulary_size, config_.width)}};
    add_packed(kHeadName, layout, {.kind = SynthesisStep::Kind::kHead});
  }

  void add_layer(uint32_t layer) {
    for (const TensorRule &rule : layer_rules()) {
      if (rule.applies(config_, layer)) add_tensor(layer, rule);
    }
    for (uint32_t expert = 0; expert < config_.n_experts; ++expert) add_expert(layer, expert);
  }

  void add_tensor(uint32_t layer, const TensorRule &rule) {
    const std::string name = tensor_name(names_, layer, rule);
    switch (rule.form) {
      case TensorForm::kVector:
        return add_layer_vector(name, rule);
      case TensorForm::kPlainMatrix:
        return add_plain(name, "F32", {rule.rows(config_), rule.columns(config_)},
                         {.kind = SynthesisStep::Kind::kDirections});
      case TensorForm::kHeadMatrix:
        return add_heads(name);
      case TensorForm::kMatrix:
        return add_matrix(name, rule);
    }
  }

  void add_layer_vector(const std::string &name, const TensorRule &rule) {
    const uint64_t size = rule.rows(config_);
    if (rule.field == &LayerSources::selection_bias) {
      return add_plain(name, "F32", {size}, {.kind = SynthesisStep::Kind::kBias});
    }
    add_vector(name, size, rule.field == &LayerSources::index_key_norm_bias ? 0.0f : 1.0f);
  }

  // weights_proj of an indexer stays in BF16, as conversions leave it.
  void add_matrix(const std::string &name, const TensorRule &rule) {
    const uint64_t rows = rule.rows(config_);
    const uint64_t columns = rule.columns(config_);
    if (rule.field == &LayerSources::index_weights) {
      return add_plain(name, "BF16", {rows, columns}, {.kind = SynthesisStep::Kind::kDirections});
    }
    double outputs = 1.0;
    if (rule.field == &LayerSources::output) outputs = added_;
    if (rule.field == &LayerSources::dense_down) outputs = added_ / kGatedDeviation;
    const WeightLayout part = integer_layout(WeightFormat::kInt8, rows, columns);
    add_codes(name, {PackedForm::kMatrix, 1, {part}}, {scale_for(part, outputs)});
  }

  void add_heads(const std::string &name) {
    const WeightLayout key =
        integer_layout(WeightFormat::kInt8, config_.kv_latent, config_.nope_width);
    const WeightLayout value =
        integer_layout(WeightFormat::kInt8, config_.value_width, config_.kv_latent);
    // A key of the expanded form is a sum over the latent, whatever the transposed half looks like.
    const double keys = std::sqrt(static_cast<double>(key.depth) / key.columns);
    add_codes(name, {PackedForm::kHeads, config_.n_heads, {key, value}},
              {scale_for(key, keys), scale_for(value, 1.0)});
  }

  void add_expert(uint32_t layer, uint32_t expert) {
    const WeightLayout gate =
        integer_layout(WeightFormat::kInt4, config_.expert_width, config_.width);
    const WeightLayout down =
        integer_layout(WeightFormat::kInt4, config_.width, config_.expert_width);
    const double outputs = added_ / kGatedDeviation / config_.routed_scale;
    add_codes(expert_name(names_, layer, expert), {PackedForm::kExpert, 1, {gate, gate, down}},
              {scale_for(gate, 1.0), scale_for(gate, 1.0), scale_for(down, outputs)});
  }

  void add_codes(const std::string &name, const PackedLayout &layout,
                 const std::array<float, 3> &scales) {
    add_packed(name, layout, {.kind = SynthesisStep::Kind::kCodes, .values = scales});
  }

  void join() {
    for (std::vector<Result> *results : {&packed_, &plain_}) {
      for (Result &result : *results) {
        plan_.output.tensors.push_back(std::move(result.tensor));
        plan_.steps.push_back(result.step);
      }
    }
  }

  const ModelConfig &config_;
  const NameTable &names_;
  double added_;  // by one sub-layer
  SynthesisPlan plan_;
  std::vector<Result> packed_, plain_;
};

}  // namespace

SynthesisPlan plan_synthesis(const ModelConfig &config) {
  return Planner(config).make();
}

}  // namespace colibri

// SPDX-License-Identifier: Apache-2.0
//
// Every stored tensor of the source is in the plan once: taken up in a matrix that is packed or
// rounded, or copied as it is. So nothing is lost, also of what this version does not use.

#include "lib/convert/conversion_plan.h"

#include <unordered_map>
#include <unordered_set>

#include "lib/base/checked_math.h"
#include "lib/convert/side_files.h"
#include "lib/residency/weight_packing.h"
#include "lib/snapshot/model_tensors.h"
#include "lib/snapshot/safetensors.h"
#include "lib/snapshot/tensor_rules.h"

namespace colibri {
namespace {

bool is_integer(const WeightSource &source) {
  return source.format == StoredFormat::kInt8Row || source.format == StoredFormat::kInt4Row ||
         source.format == StoredFormat::kInt4Grouped || source.format == StoredFormat::kMxFp4;
}

bool is_quantising(TargetFormat target) {
  return target == TargetFormat::kInt8 || target == TargetFormat::kInt4;
}

uint64_t matrix_elements(const WeightSource &source) {
  return checked_multiply(source.rows, source.columns, "elements of a matrix");
}

class Planner {
 public:
  Planner(const Snapshot &source, const ConversionOptions &options)
      : source_(source), options_(options) {}

  ConversionPlan make() {
    const ModelSources &sources = source_.sources();
    plan_matrix(sources.embedding, options_.embedding);
    if (!source_.config().ties_embedding) plan_matrix(sources.head, options_.head);
    for (uint32_t i = 0; i < sources.layers.size(); ++i) plan_layer(i, sources.layers[i]);
    copy_rest();
    join();
    return std::move(plan_);
  }

 private:
  struct Result {
    OutputTensor tensor;
    ConversionStep step;
  };

  void plan_layer(uint32_t layer, const LayerSources &sources) {
    for (const TensorRule &rule : layer_rules()) {
      if (rule.form != TensorForm::kMatrix || !rule.applies(source_.config(), layer)) continue;
      if (rule.field == &LayerSources::index_weights) continue;  // copied, as below
      plan_matrix(sources.*rule.field, options_.dense);
    }
    if (sources.kv_b.is_present()) plan_heads(sources.kv_b);
    if (is_integer(sources.index_weights)) ++plan_.n_kept_matrices;  // copied, as in any format
    for (uint32_t e = 0; e < sources.experts.size(); ++e) {
      plan_expert(expert_name(*source_.sources().names, layer, e), sources.experts[e]);
    }
  }

  void plan_matrix(const WeightSource &source, TargetFormat target) {
    if (is_integer(source) || is_quantising(target)) {
      const PackedLayout layout{PackedForm::kMatrix, 1, {choose_layout(source, target)}};
      add_packed(source.name, layout, {ConversionStep::Kind::kPack, {}, {source}});
    } else if (target == TargetFormat::kBF16 && source.format != StoredFormat::kBF16) {
      add_rounded(source);
    }
  }

  // Integer values and scales run along the other axis than the transposed key half needs, so what
  // is INT8 or INT4 already stays row-major and is taken apart when the model is opened.
  void plan_heads(const WeightSource &source) {
    if (is_integer(source)) {
      ++plan_.n_kept_matrices;
      return;
    }
    if (!is_quantising(options_.dense)) return plan_matrix(source, options_.dense);
    const ModelConfig &config = source_.config();
    const WeightLayout key = make_layout(options_.dense, config.kv_latent, config.nope_width);
    const WeightLayout value = make_layout(options_.dense, config.value_width, config.kv_latent);
    ++plan_.n_quantised_matrices;
    add_packed(source.name, {PackedForm::kHeads, config.n_heads, {key, value}},
               {ConversionStep::Kind::kHeads, {}, {source}});
  }

  void plan_expert(const std::string &name, const ExpertSource &expert) {
    PackedLayout layout{PackedForm::kExpert, 1, {}};
    std::vector<WeightSource> sources = {expert.gate, expert.up, expert.down};
    for (const WeightSource &matrix : sources) {
      layout.parts.push_back(choose_layout(matrix, options_.experts));
    }
    if (expert.gate_bias.is_present()) {
      for (const WeightSource &bias : {expert.gate_bias, expert.up_bias, expert.down_bias}) {
        layout.parts.push_back(vector_layout(bias));
        sources.push_back(bias);
      }
    }
    add_packed(name, layout, {ConversionStep::Kind::kExpert, {}, std::move(sources)});
  }

  // The layout of one packed matrix, which is counted.
  WeightLayout choose_layout(const WeightSource &source, TargetFormat target) {
    if (is_integer(source)) ++plan_.n_kept_matrices;
    if (is_integer(source) || !is_quantising(target)) return packed_layout(source);
    ++plan_.n_quantised_matrices;
    return make_layout(target, source.rows, source.columns);
  }

  WeightLayout make_layout(TargetFormat target, uint64_t columns, uint64_t depth) const {
    return quantised_layout(
        target == TargetFormat::kInt8 ? WeightFormat::kInt8 : WeightFormat::kInt4, columns, depth,
        options_.group);
  }

  void add_packed(const std::string &name, const PackedLayout &layout, ConversionStep step) {
    for (const WeightSource &source : step.sources) take(source);
    packed_.push_back({packed_tensor(name, layout), std::move(step)});
  }

  void add_rounded(const WeightSource &source) {
    take(source);
    const uint64_t bytes = checked_multiply(matrix_elements(source), 2, "a matrix in BF16");
    rounded_.push_back({{source.name, "BF16", {source.rows, source.columns}, bytes, std::nullopt},
                        {ConversionStep::Kind::kRound, {}, {source}}});
  }

  // The stored tensors behind a source are not copied as well.
  void take(const WeightSource &source) {
    taken_.insert(values_name(source));
    if (source.scales.bytes != 0) taken_.insert(scales_name(source_.index(), source));
  }

  void copy_rest() {
    const TensorIndex &index = source_.index();
    const auto type_names = read_type_names();
    for (const std::string_view view : index.names()) {
      const std::string name(view);
      if (taken_.contains(name)) continue;
      const TensorInfo &info = *index.find(name);
      OutputTensor tensor{name, type_names.at(name), info.shape, info.bytes, std::nullopt};
      tensor.stamp = index.stamped_format(name);
      copied_.push_back({std::move(tensor), {ConversionStep::Kind::kCopy, name, {}}});
    }
  }

  // Types as the files spell them; the index only knows those that the library reads.
  std::unordered_map<std::string, std::string> read_type_names() const {
    std::unordered_map<std::string, std::string> names;
    for (const ShardFile &file : source_.index().files()) {
      for (TensorRecord &record : read_safetensors_header(*file.reader).tensors) {
        names.emplace(std::move(record.name), std::move(record.type_name));
      }
    }
    return names;
  }

  void join() {
    for (std::vector<Result> *results : {&packed_, &rounded_, &copied_}) {
      for (Result &result : *results) {
        plan_.output.tensors.push_back(std::move(result.tensor));
        plan_.steps.push_back(std::move(result.step));
      }
    }
  }

  const Snapshot &source_;
  const ConversionOptions &options_;
  ConversionPlan plan_;
  std::vector<Result> packed_, rounded_, copied_;
  std::unordered_set<std::string> taken_;
};

}  // namespace

ConversionPlan plan_conversion(const Snapshot &source, const ConversionOptions &options) {
  check_options(options);
  if (source.index().is_packed()) {
    throw_error(StatusCode::kUnsupported,
                "'%s' is a packed snapshot already; give the model that it was made from",
                source.directory().c_str());
  }
  ConversionPlan plan = Planner(source, options).make();
  plan.output.source_identity = source.index().identity_hash();
  plan.output.model_type = source.config().model_type;
  plan.output.options = describe_options(options);
  plan.output.max_shard_bytes = options.max_shard_bytes;
  plan.output.files = read_side_files(source.directory());
  return plan;
}

}  // namespace colibri
